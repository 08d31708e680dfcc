#include "checkpoints/weights_format.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_file(const fs::path& path,
                              std::string_view why,
                              std::string_view remark = {}) {
  refuse("[weights] '{}': {}{}", path, why, remark);
}

constexpr std::string_view old_pytorch_head = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20";

std::string first_bytes_of(const InputFile& file) {
  return file.part(0, std::min<std::int64_t>(16, file.size()));
}

std::optional<WeightsFormat> format_of(std::string_view head) {
  using namespace std::string_view_literals;
  // First, as a header's length may begin like anything.
  if (head.find("\0\0\0\0{"sv) == 4) return WeightsFormat::safetensors;
  if (head.starts_with("PK")) return WeightsFormat::pytorch;
  if (head.starts_with("\x0a")) return WeightsFormat::mindspore;
  return {};
}

}  // namespace

WeightsFormat weights_format(const fs::path& path) {
  const InputFile file(path);
  const auto head = first_bytes_of(file);
  if (const auto format = format_of(head)) return *format;
  if (head.starts_with(old_pytorch_head)) {
    refuse_file(
        path,
        "is in PyTorch's format before 1.6, which is not read; write it again with torch.save("
        "torch.load(FILE, weights_only=True), FILE)");
  }
  if (head.starts_with("\x80"))
    refuse_file(path, "is a plain pickle, which could run code; write it again with torch.save");
  refuse_file(
      path,
      "needs to be safetensors, PyTorch's zip format or MindSpore's .ckpt (a TensorFlow or Keras "
      "checkpoint: save its weights as safetensors)",
      file.placeholder_remark());
}

bool has_weights_format(const fs::path& path) {
  return format_of(first_bytes_of(InputFile(path))).has_value();
}

}  // namespace dimred::checkpoints
