#include "run/hook_options.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "run/builtin_hooks.h"
#include "support/errors.h"
#include "support/suggestion.h"
#include "support/text.h"

// Each file of run/hooks/ makes one, and has one line in hooks.inc.
namespace dimred::run::hooks {
#define DIMRED_HOOK(name) std::unique_ptr<Hook> make_##name();
#include "run/hooks/hooks.inc"
#undef DIMRED_HOOK
}  // namespace dimred::run::hooks

namespace dimred::run {
namespace {

struct RegisteredHook {
  std::string name;
  std::unique_ptr<Hook> (*make)();
};

#define DIMRED_HOOK(name) {#name, hooks::make_##name},
const std::vector<RegisteredHook> registry = {
#include "run/hooks/hooks.inc"
};
#undef DIMRED_HOOK

std::vector<std::string> names() { return texts_of(registry, &RegisteredHook::name); }

const RegisteredHook& find(const std::string& name) {
  for (const auto& entry : registry)
    if (entry.name == name) return entry;
  refuse("[training] hooks needs names among {}, received {}{}",
         name_list(names()),
         name.empty() ? "an empty name" : name,
         suggestion(name, names()));
}

/// "a, b" -> the entries of a and b.
std::vector<const RegisteredHook*> entries_of(const std::string& list) {
  std::vector<const RegisteredHook*> entries;
  for (const auto& word : split_list(list)) {
    const auto* entry = &find(word);
    require(std::ranges::find(entries, entry) == entries.end(),
            "[training] hooks must not name {} twice, received {}",
            word,
            list);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

void add_options(OptionTable& table, HookOptions& options) {
  table.group("Control");
  table
      .add("profile_every_n_iters",
           &options.profile_every_n_iters,
           formatted(
               "profile every Nth step, up to {} steps, into trace_STEP.json for Perfetto; 0: none",
               most_traces),
           at_least(0))
      .may_change();
  table.add("profile_at_task", &options.profile_at_task, "rank to profile", at_least(0))
      .needs(above("profile_every_n_iters"))
      .may_change();
  table
      .add("time_history",
           &options.time_history,
           "write the seconds, images/s and data-waiting time of each step into step_times.csv")
      .may_change();
  table.add("hooks",
            &options.hooks,
            "hooks to add, separated by commas; available: " + name_list(names()));
}

void validate(const HookOptions& options, int ranks) {
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

}  // namespace dimred::run
