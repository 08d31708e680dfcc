#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/state.h"
#include "checkpoints/weights_file.h"
#include "engine/model.h"

// The network's tensors, found among named ones.
namespace dimred::run {

/// A weight file of another program, its tensors by the network's names.
checkpoints::WeightsFile foreign_weights(const engine::Model& model,
                                         const std::filesystem::path& path);

/// The outcome for each of the network's tensors.
struct Matching {
  /// vectors weights [M], buffers and frozen, counters: as they were where nothing was loaded.
  checkpoints::State state;
  std::vector<std::string> loaded, excluded;
  std::vector<std::string> unused;    // names of the file
  std::vector<std::string> unfolded;  // of these, parts of an adapter
  std::vector<std::string> problems;  // "fc.weight: expected [10,64], received [5,64]"
};

/// The network's tensors that `selected` takes, from the file, into `weights` [M], of all ranks. A
/// count of batches that the file lacks is 0.
Matching match(const engine::Model& model,
               const checkpoints::WeightsFile& file,
               const std::function<bool(const std::string&)>& selected,
               std::vector<float> weights);

/// "3 tensors differ: ...; ...", the first five of them.
std::string first_problems(const Matching& matching);

/// Puts the state of a matching into the setup's network, the frozen part with it.
void put(engine::Model& model, const checkpoints::State& state);

}  // namespace dimred::run
