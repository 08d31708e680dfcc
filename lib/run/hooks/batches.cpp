#include "checkpoints/safetensors.h"
#include "models/flat.h"
#include "run/hooks.h"
#include "run/weights/named_weights.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/text.h"

namespace dimred::run::hooks {
namespace {

namespace fs = std::filesystem;

/// Writes what each step is made of, so that another program can make the same steps. In batches/:
/// weights_STEP.safetensors has the network before this process's first step.
/// step_STEP.safetensors has `images` [samples, channels, height, width] and `labels` [samples], as
/// the network had them, and `loss` [], the mean over all ranks before the step.
/// Each rank above 0 writes step_STEP.rankN.safetensors instead. The images are float32, so a value
/// takes 4 bytes on the disk.
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

}  // namespace dimred::run::hooks
