#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Networks of one training program that lie side by side under names of one form: an actor and its
// critic, a teacher and its student, raw weights and their average. Nothing is the mean of such.
namespace dimred::checkpoints {

struct RoleDifference {
  std::filesystem::path one, other;
  std::string role, other_role;  // words of the names: "policy" and "value"; `role` is empty where
                                 // only the other name has such a word: step5 and step5-EMA
};

/// Returns two members whose names say that their weights are different networks, or raw and
/// averaged weights of one step; nullopt where no names say so. Only the parts of the paths count
/// in which not all members agree. Names with both words, as actor_critic, have no role.
std::optional<RoleDifference> different_roles(const std::vector<std::filesystem::path>& members);

}  // namespace dimred::checkpoints
