#include "engine/model.h"

#include "support/errors.h"
#include "support/text.h"

namespace dimred::engine {

void require_variances(const Model& model, std::string_view what) {
  for (const auto& [name, tensor, rows, first_row] : models::all_tensors(*model.objective))
    require_environment(!name.ends_with("running_var") || !(tensor < 0).any().item<bool>(),
                        "{} needs running variances >= 0, received a variance below 0 in {}",
                        what,
                        name);
}

models::AmpLists amp_lists(const ModelOptions& options) {
  return {split_list(options.amp_allow), split_list(options.amp_deny)};
}

models::Precision choose_precision(PrecisionChoice choice, torch::Device device) {
  const bool native = models::has_native_bfloat16(device);
  require(choice != PrecisionChoice::bfloat16 || native,
          "[precision] bfloat16 is not native on this processor; use float32 or auto");
  require(choice != PrecisionChoice::float16 || device.is_cuda(),
          "[precision] float16 needs a CUDA device, because a CPU computes float16 convolutions "
          "hundreds of times slower; use bfloat16, float32 or auto");
  if (choice == PrecisionChoice::float16) return models::Precision::float16;
  const bool bfloat16 =
      choice == PrecisionChoice::bfloat16 || (choice == PrecisionChoice::automatic && native);
  return bfloat16 ? models::Precision::bfloat16 : models::Precision::float32;
}

torch::MemoryFormat tensor_format(const Model& model) {
  return model.memory_format == layout::MemoryFormat::channels_last
             ? torch::MemoryFormat::ChannelsLast
             : torch::MemoryFormat::Contiguous;
}

models::Minibatch to_minibatch(const Model& model, data::Batch& batch, bool wait) {
  const auto [channels, height, width] = batch.shape;
  const std::vector<std::int64_t> sizes{batch.count(), channels, height, width};
  const bool interleaved = batch.order == data::PixelOrder::interleaved;
  const std::vector<std::int64_t> strides{batch.shape.size(),
                                          interleaved ? 1 : height * width,
                                          interleaved ? width * channels : width,
                                          interleaved ? channels : 1};
  auto images = torch::from_blob(batch.images.data(), sizes, strides, torch::kFloat32);
  auto labels = torch::from_blob(batch.labels.data(), {batch.count()}, torch::kInt64);
  const auto there = [&](const torch::Tensor& values) {
    return values.to(model.device, /*non_blocking=*/!wait);
  };
  // Labels first: a large copy out of plain memory waits for what its stream has been given.
  const auto labels_there = there(labels);
  return {there(images).contiguous(tensor_format(model)), labels_there};
}

}  // namespace dimred::engine
