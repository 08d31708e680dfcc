#include "training/hooks.h"

#include <algorithm>

#include "support/errors.h"
#include "support/split_list.h"
#include "training/builtin_hooks.h"

// Each file of training/hooks/ makes one, and has one line in list.inc.
namespace dimred::training::hooks {
#define DIMRED_HOOK(name) std::unique_ptr<Hook> make_##name();
#include "training/hooks/list.inc"
#undef DIMRED_HOOK
}  // namespace dimred::training::hooks

namespace dimred::training {
namespace {

struct Entry {
  std::string name;
  std::unique_ptr<Hook> (*make)();
};

const std::vector<Entry>& registry() {
#define DIMRED_HOOK(name) {#name, hooks::make_##name},
  static const std::vector<Entry> entries = {
#include "training/hooks/list.inc"
  };
#undef DIMRED_HOOK
  return entries;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : registry()) all.push_back(entry.name);
  return all;
}

const Entry& find(const std::string& name) {
  for (const auto& entry : registry())
    if (entry.name == name) return entry;
  std::string known;
  for (const auto& other : names()) known += (known.empty() ? "" : ", ") + other;
  const auto near = nearest(name, names());
  throw std::invalid_argument(formatted("[training] hooks needs names among {}, received {}{}",
                                        known,
                                        name.empty() ? "an empty one" : name,
                                        near ? "; did you mean " + *near + "?" : ""));
}

/// "a, b" -> the entries of a and b.
std::vector<const Entry*> entries_of(const std::string& list) {
  std::vector<const Entry*> entries;
  for (const auto& word : split_list(list)) {
    const auto* entry = &find(word);
    require(std::ranges::find(entries, entry) == entries.end(),
            "[training] hooks needs each name once, received {} twice",
            word);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

void Hooks::add(std::unique_ptr<Hook> hook) {
  if (hook) hooks_.push_back(std::move(hook));
}
void Hooks::begin(const RunView& run) {
  for (const auto& hook : hooks_) hook->begin(run);
}
void Hooks::before_step(const RunView& run) {
  for (const auto& hook : hooks_) hook->before_step(run);
}
void Hooks::after_step(const RunView& run, const StepReport& step) {
  for (const auto& hook : hooks_) hook->after_step(run, step);
}
void Hooks::evaluate(const RunView& run, std::vector<CurveRow>& rows) {
  for (const auto& hook : hooks_) hook->evaluate(run, rows);
}
void Hooks::after_epoch(const RunView& run, const CurveRow& row) {
  for (const auto& hook : hooks_) hook->after_epoch(run, row);
}
bool Hooks::should_stop(const RunView& run) const {
  return std::ranges::any_of(hooks_, [&](const auto& hook) { return hook->should_stop(run); });
}
void Hooks::end(const RunView& run) {
  for (const auto& hook : hooks_) hook->end(run);
}
void Hooks::save(const RunView& run, checkpoints::State& state) {
  for (const auto& hook : hooks_) hook->save(run, state);
}
void Hooks::restore(const Setup& setup, const checkpoints::State& state, bool own) {
  for (const auto& hook : hooks_) hook->restore(setup, state, own);
}

void add_options(OptionTable& table, HookOptions& options) {
  std::string known;
  for (const auto& name : names()) known += (known.empty() ? "" : ", ") + name;
  table.group("Control");
  table.add("profile_every_n_iters",
            &options.profile_every_n_iters,
            formatted("every so many steps one is profiled into trace_STEP.json (Chrome's format, "
                      "opens in Perfetto), {} of a run; 0: none",
                      most_traces),
            at_least(0));
  table.add("profile_at_task", &options.profile_at_task, "the rank that is profiled", at_least(0));
  table.add("time_history",
            &options.time_history,
            "write each step's seconds, images/s and wait for data into step_times.csv");
  table.add("hooks", &options.hooks, "more hooks by name, comma-separated: " + known);
}

void validate(const HookOptions& options, int ranks) {
  require(options.profile_every_n_iters >= 0,
          "[training] profile_every_n_iters needs >= 0, received {}",
          options.profile_every_n_iters);
  const bool there = options.profile_at_task >= 0 && options.profile_at_task < ranks;
  require(options.profile_every_n_iters == 0 || there,
          "[training] profile_at_task needs one of the {} ranks, counted from 0, received {}",
          ranks,
          options.profile_at_task);
  entries_of(options.hooks);
}

void add_hooks(Hooks& hooks, const HookOptions& options, int ranks) {
  validate(options, ranks);
  if (options.time_history) hooks.add(make_time_history());
  if (options.profile_every_n_iters > 0)
    hooks.add(make_profiler(options.profile_every_n_iters, options.profile_at_task));
  for (const auto* entry : entries_of(options.hooks)) hooks.add(entry->make());
  hooks.add(make_run_summary());
}

}  // namespace dimred::training
