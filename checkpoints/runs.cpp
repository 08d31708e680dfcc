#include "checkpoints/runs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <sstream>

#include "checkpoints/artifact.h"
#include "checkpoints/snapshot.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view split_seed_key = "split_seed = ";

std::optional<std::int64_t> split_seed_in(const std::string& config) {
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(split_seed_key))
      return std::strtoll(line.c_str() + split_seed_key.size(), nullptr, 10);
  return std::nullopt;
}

bool is_one_run(const RunIdentity& a, const RunIdentity& b) {
  if (!a.id.empty() && !b.id.empty()) return a.id == b.id;
  return !a.split_seed || !b.split_seed || a.split_seed == b.split_seed;
}

/// A, B, ..., Z, 27, 28, ...
std::string letter_of(std::size_t place) {
  constexpr std::size_t letters = 26;
  return place < letters ? std::string(1, static_cast<char>('A' + place))
                         : std::to_string(place + 1);
}

std::string seed_text(const RunIdentity& run) {
  if (run.seed) return formatted(" (seed {})", *run.seed);
  return run.split_seed ? formatted(" (split_seed {})", *run.split_seed) : "";
}

/// The members of one run.
struct RunShare {
  RunIdentity run;
  std::size_t members = 0;
  fs::path first;  // of its members
};

/// The members by their runs, in the order of the runs' first members.
std::vector<RunShare> runs_of(const std::vector<MemberFacts>& members) {
  std::vector<RunShare> runs;
  for (const auto& member : members) {
    const auto share = std::ranges::find_if(
        runs, [&](const RunShare& known) { return is_one_run(known.run, member.run); });
    if (share == runs.end()) {
      runs.push_back({member.run, 1, member.path});
      continue;
    }
    ++share->members;
    if (share->run.id.empty()) share->run = member.run;  // the one that says more
  }
  return runs;
}

std::string shares_text(const std::vector<RunShare>& runs, bool with_paths) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [run, members, first] = runs[i];
    text +=
        formatted("{}{} of run {}{}", i == 0 ? "" : ", ", members, letter_of(i), seed_text(run));
    if (with_paths) text += formatted(" such as '{}'", first);
  }
  return text;
}

}  // namespace

RunIdentity identity_of(const std::string& run_json) {
  RunIdentity identity;
  const auto record = nlohmann::json::parse(run_json, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return identity;
  if (const auto config = record.find("config"); config != record.end() && config->is_string())
    identity.split_seed = split_seed_in(config->get<std::string>());
  const auto run = record.find("run");
  if (run == record.end() || !run->is_object()) return identity;
  if (const auto id = run->find("identity"); id != run->end() && id->is_string())
    identity.id = id->get<std::string>();
  if (const auto seed = run->find("seed"); seed != run->end() && seed->is_number_integer())
    identity.seed = seed->get<std::int64_t>();
  return identity;
}

nlohmann::json to_json(const RunIdentity& run) {
  nlohmann::json json{{"identity", run.id}};
  if (run.seed) json["seed"] = *run.seed;
  return json;
}

RunIdentity new_identity() {
  std::random_device random;
  std::array<std::uint32_t, 4> bits{};
  std::ranges::generate(bits, std::ref(random));
  return {.id = digest(std::as_bytes(std::span(bits))), .seed = {}, .split_seed = {}};
}

std::string runs_remark(const std::vector<MemberFacts>& members) {
  const auto runs = runs_of(members);
  if (runs.size() < 2) return {};
  return formatted("the checkpoints are of {} runs: {}", runs.size(), shares_text(runs, false));
}

void require_one_run(const std::vector<MemberFacts>& members, std::string_view scope) {
  const auto runs = runs_of(members);
  require(runs.size() < 2,
          "[{}] needs the snapshots of one run, received {}; choose one run, or average the "
          "snapshots with dimred merge",
          scope,
          shares_text(runs, true));
}

std::vector<MemberFacts> member_runs(const std::vector<fs::path>& files) {
  std::vector<MemberFacts> members;
  for (const auto& file : files) {
    if (look(file).kind != ArtifactKind::snapshot) continue;
    const auto info = read_snapshot_info(file);
    members.push_back({.path = file, .step = info.step, .run = identity_of(info.run_json)});
  }
  return members;
}

}  // namespace dimred::checkpoints
