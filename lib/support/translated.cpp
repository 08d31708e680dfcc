#include "support/translated.h"

#include <algorithm>
#include <array>

namespace dimred {
namespace {

struct Name {
  std::string_view theirs, ours;
};

/// Options of PyTorch's examples, timm's train.py, Lightning's Trainer and Hugging Face's
/// TrainingArguments. The first name that a command has counts.
constexpr std::array names = {
    Name{"accelerator", "device"},
    Name{"accum_iter", "gradient_accumulation"},
    Name{"accumulate_grad_batches", "gradient_accumulation"},
    Name{"amp", "precision"},
    Name{"arch", "model"},
    Name{"a", "model"},
    Name{"b", "batch_size"},
    Name{"bf16", "precision"},
    Name{"bs", "batch_size"},
    Name{"checkpoint", "resume_from"},
    Name{"checkpoint", "weights"},
    Name{"checkpoint_path", "resume_from"},
    Name{"checkpoint_path", "checkpoint"},
    Name{"ckpt", "resume_from"},
    Name{"ckpt", "checkpoint"},
    Name{"ckpt", "weights"},
    Name{"ckpt_path", "resume_from"},
    Name{"ckpt_path", "checkpoint"},
    Name{"ckpt_path", "weights"},
    Name{"clip_grad", "max_gradient_norm"},
    Name{"clip_grad_norm", "max_gradient_norm"},
    Name{"color_jitter", "colour_jitter"},
    Name{"cuda", "device"},
    Name{"data_dir", "data"},
    Name{"data_path", "data"},
    Name{"dataset_dir", "data"},
    Name{"default_root_dir", "output"},
    Name{"dtype", "precision"},
    Name{"e", "epochs"},
    Name{"fp16", "precision"},
    Name{"gpu", "device"},
    Name{"gpus", "device"},
    Name{"grad_accum", "gradient_accumulation"},
    Name{"gradient_accumulation_steps", "gradient_accumulation"},
    Name{"gradient_clip_val", "max_gradient_norm"},
    Name{"half", "precision"},
    Name{"img_size", "image_size"},
    Name{"init_from", "initialize_from"},
    Name{"input_size", "image_size"},
    Name{"j", "num_preprocessing_threads"},
    Name{"j", "threads"},
    Name{"k", "components"},
    Name{"k", "n_component"},
    Name{"log_dir", "output"},
    Name{"lr", "learning_rate"},
    Name{"lr_scheduler", "schedule"},
    Name{"lr_scheduler_type", "schedule"},
    Name{"lr_step_size", "milestones"},
    Name{"max_epochs", "epochs"},
    Name{"max_grad_norm", "max_gradient_norm"},
    Name{"min_lr", "end_learning_rate"},
    Name{"model_name", "model"},
    Name{"n_components", "components"},
    Name{"n_components", "n_component"},
    Name{"components", "n_component"},
    Name{"n_component", "components"},
    Name{"nepochs", "epochs"},
    Name{"net", "model"},
    Name{"network", "model"},
    Name{"num_epochs", "epochs"},
    Name{"num_train_epochs", "epochs"},
    Name{"num_workers", "num_preprocessing_threads"},
    Name{"o", "output"},
    Name{"opt", "optimizer"},
    Name{"optim", "optimizer"},
    Name{"opt_eps", "opt_epsilon"},
    Name{"out", "output"},
    Name{"out_dir", "output"},
    Name{"output_dir", "output"},
    Name{"patience", "early_stopping_patience"},
    Name{"per_device_train_batch_size", "batch_size"},
    Name{"pretrained", "initialize_from"},
    Name{"projection", "pca_mat"},
    Name{"resume", "resume_from"},
    Name{"resume", "checkpoint"},
    Name{"sched", "schedule"},
    Name{"scheduler", "schedule"},
    Name{"smoothing", "label_smoothing"},
    Name{"test_dir", "test_data"},
    Name{"train_dir", "data"},
    Name{"val_dir", "test_data"},
    Name{"val_split", "validation_fraction"},
    Name{"validation_split", "validation_fraction"},
    Name{"boost", "stage2"},
    Name{"eval", "evaluate"},
    Name{"fit", "stage1"},
    Name{"infer", "predict"},
    Name{"project", "pca"},
    Name{"test", "evaluate"},
    Name{"train", "stage1"},
    Name{"validate", "evaluate"},
    Name{"warmup", "warmup_epochs"},
    Name{"warmup_lr", "warmup_scheme"},
    Name{"wd", "weight_decay"},
    Name{"workers", "num_preprocessing_threads"},
};

}  // namespace

std::optional<std::string> translated(std::string_view name,
                                      const std::vector<std::string>& candidates) {
  for (const auto& [theirs, ours] : names)
    if (theirs == name && std::ranges::find(candidates, ours) != candidates.end())
      return std::string(ours);
  return std::nullopt;
}

}  // namespace dimred
