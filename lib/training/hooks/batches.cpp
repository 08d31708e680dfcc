#include "checkpoints/safetensors.h"
#include "models/flat.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/text.h"
#include "training/hooks.h"
#include "training/weights/named_weights.h"

namespace dimred::training::hooks {
namespace {

namespace fs = std::filesystem;

/// Writes what the steps are made on, so that another program can make the same ones: in batches/,
/// the network before this process's first step as weights_STEP.safetensors, and after each step
/// step_STEP.safetensors with `images` [samples, channels, height, width] and `labels` [samples] as
/// the network had them, and `loss` [], the mean over all ranks before the step. Other ranks than 0
/// write step_STEP.rankN.safetensors. Disk: the images in float32, 4 bytes a value.
class BatchesHook final : public Hook {
 public:
  void begin(const RunView& run) override {
    folder_ = run.folder->path() / "batches";
    create_folders_inside(run.folder->path(), folder_);
    const auto rank = run.setup->communicator->rank();
    if (rank == 0) write_named_weights(run.setup->model, file("weights_", run.position->step, ""));
    if (rank > 0) suffix_ = formatted(".rank{}", rank);
  }

  void after_step(const RunView& run,
                  const StepSummary& step,
                  const models::Minibatch& batch) override {
    const auto& [images, labels] = batch;
    checkpoints::write_safetensors(
        file("step_", run.position->step, suffix_),
        {{"images", images.sizes().vec(), models::to_vector(images.contiguous())},
         {"loss", {}, {static_cast<float>(step.result.mean_loss())}}},
        {{"labels", labels.sizes().vec(), models::to_integers(labels)}});
  }

 private:
  fs::path file(const char* name, std::int64_t step, const std::string& suffix) const {
    return folder_ / formatted("{}{}{}.safetensors", name, padded(step, 8), suffix);
  }

  fs::path folder_;
  std::string suffix_;
};

}  // namespace

std::unique_ptr<Hook> make_batches() { return std::make_unique<BatchesHook>(); }

}  // namespace dimred::training::hooks
