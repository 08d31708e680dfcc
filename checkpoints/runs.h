#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Which run the members of a series belong to.
namespace dimred::checkpoints {

/// The identity of a run, as its snapshots and states carry it.
struct RunIdentity {
  std::string id;  // the same as long as the run is resumed; empty: not known
  std::optional<std::int64_t> seed, split_seed;

  bool operator==(const RunIdentity&) const = default;
};

/// Reads the identity from Snapshot::run_json; a text without one, or no JSON, has none.
RunIdentity identity_of(const std::string& run_json);

/// Returns {"identity": id, "seed": seed}, as "run" in run_json has it.
nlohmann::json to_json(const RunIdentity& run);

/// Returns the identity with which a recorder of Python begins: 128 random bits.
RunIdentity new_identity();

/// A member of a series, as its file describes it.
struct MemberFacts {
  std::filesystem::path path;        // of the member, for messages
  std::optional<std::int64_t> step;  // that a snapshot's file holds
  RunIdentity run;                   // of a snapshot or a state
  std::string averaging;             // Checkpoint::averaging
};

/// Returns "the checkpoints are of 2 runs: 5 of run A (seed 1), 4 of run B (seed 2)"; empty for one
/// run. Two members are of two runs where their identities differ, or, where one has none, their
/// split_seed.
std::string runs_remark(const std::vector<MemberFacts>& members);

/// Throws std::invalid_argument("[scope] ...") naming a member of each run where there are several.
void require_one_run(const std::vector<MemberFacts>& members, std::string_view scope);

/// Reads path, step and run of each file that is a snapshot of ours. Cost: all but their weights is
/// read.
std::vector<MemberFacts> member_runs(const std::vector<std::filesystem::path>& files);

}  // namespace dimred::checkpoints
