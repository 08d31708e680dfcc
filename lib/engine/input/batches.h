#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "data/loader.h"
#include "engine/device/device_stream.h"
#include "engine/passes/gradient.h"
#include "engine/setup.h"
#include "models/objective.h"

namespace dimred::engine {

/// A rank's part of one global batch on the setup's device; may be empty.
struct DeviceBatch {
  models::Minibatch tensors;
  std::int64_t global_count = 0;  // over all ranks
  ForwardKey key;                 // of the step that uses it
  /// To be called once the device is at work on this batch, before anything is waited for: it
  /// prepares the next one. May be empty.
  std::function<void()> prefetch_next = {};
  data::Batch buffers;  // on the CPU the images are a view into it
  StreamEvent copied;   // the buffers are read until then

  std::int64_t count() const { return tensors.labels.size(0); }  // of this rank
};

/// The batches of one pass over a data set, in order.
class Batches {
 public:
  virtual ~Batches() = default;
  /// The next one, or nullopt after the last. Throws as data::Loader::next().
  virtual std::optional<DeviceBatch> next() = 0;
  /// Queues the next one for the device, if that needs no waiting; next() gives it as before. To be
  /// called while the device is at work on the present one. Memory: a batch more on the device,
  /// where a loader makes them two, and their buffers.
  virtual void prefetch() = 0;
  /// Gives a used batch's buffers back.
  virtual void recycle(DeviceBatch batch) = 0;
  /// Seconds that next() has waited for a batch that was not ready.
  virtual double seconds_waited() const = 0;
  virtual data::LoaderReport report() const = 0;
};

/// How batches of one epoch are prepared.
data::LoaderOptions loader_options(const Setup& setup);

/// The shuffled order of the training set.
data::Order training_order(const Setup& setup);

/// From the images on the device where the setup keeps that set's there, else from a data::Loader:
/// the same bits. Begins at `first_step` of the epoch. Throws as data::Loader.
std::unique_ptr<Batches> make_batches(const Setup& setup,
                                      const data::Dataset& dataset,
                                      const data::Order& order,
                                      const data::Preprocessing& preprocessing,
                                      const data::LoaderOptions& options,
                                      std::int64_t epoch,
                                      std::int64_t first_step = 0);

/// The batches of an epoch of training, in the setup's order.
std::unique_ptr<Batches> training_batches(const Setup& setup,
                                          std::int64_t epoch,
                                          std::int64_t first_step = 0);

/// The next batch on every rank, or nullopt after the last. Throws Stopped on all of them when a
/// request to stop has come to any before all had their batch: nobody begins a pass whose data
/// another does not wait for.
std::optional<DeviceBatch> next_on_all_ranks(const Setup& setup, Batches& batches);

/// Training, validation and test set are copied to the setup's device when their first batches are
/// wanted. automatic: on CUDA, each that can be kept there within 2 GB; the loader goes on where
/// the copy finds no room or a bad sample. yes: throws std::invalid_argument where a set cannot be
/// kept.
void keep_on_device(Setup& setup, DataOnDevice choice);

/// The batches of `loader`. Batches for another device than the host are copied on a stream of
/// their own.
std::unique_ptr<Batches> loaded_batches(const Setup& setup, std::unique_ptr<data::Loader> loader);

}  // namespace dimred::engine
