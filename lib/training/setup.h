#pragma once

#include "checkpoints/runs.h"
#include "distributed/connect.h"
#include "training/data_sets.h"
#include "training/model.h"

namespace dimred::training {

/// Everything a stage trains with, made from the options alone. Functions in need of one part take
/// it alone.
struct Setup {
  std::shared_ptr<distributed::TensorCommunicator> communicator;
  std::uint64_t seed = 0;
  std::string
      persistent_options;  // checkpoints::persistent_options of this run; empty in tests without
  checkpoints::RunIdentity run;  // which states and snapshots carry; a resumed run keeps it
  DataSets data;
  Model model;
};

/// Sets torch's threads (the machine's cores shared by its ranks), loads the data, builds the
/// network with weights drawn from the seed. Options must be resolved. Throws std::invalid_argument
/// for options that contradict each other or the data, a missing device, bfloat16 where it is not
/// native ("auto" falls back) and float16 without CUDA, and on every rank when they disagree in
/// data or layout. Fills in how images are prepared, where the options leave that to the data.
Setup make_setup(CommonOptions& options, const distributed::Ranks& ranks);

/// Gives a setup that has its images' shape, device, seed and communicator a network with weights
/// drawn from the seed, or a TorchScript module with its own, the head behind it if one is wanted
/// (its classes shared out over the ranks), and the flat vectors behind both.
/// Throws std::invalid_argument as make_network does, and for a module that cannot take images in
/// the options' memory format.
void attach_network(Setup& setup,
                    const ModelOptions& model,
                    const models::LossOptions& loss,
                    std::int64_t classes,
                    const models::HeadOptions& head = {});

/// From now on passes are recorded as CUDA graphs and replayed, where `wanted` and they can be: on
/// a CUDA device, of one rank, in one part and without a margin softmax, whose losses the host
/// sees.
void record_passes(Setup& setup, bool wanted);

/// How batches of one epoch are prepared.
data::LoaderOptions loader_options(const Setup& setup);

/// The shuffled order of the training set.
data::Order training_order(const Setup& setup);

}  // namespace dimred::training
