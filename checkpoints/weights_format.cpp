#include "checkpoints/weights_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/errors.h"
#include "support/text.h"

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

#define DIMRED_WEIGHTS_FORMAT(name) &name##_format,
constexpr std::array formats{
#include "checkpoints/weights_formats.inc"
};
#undef DIMRED_WEIGHTS_FORMAT

std::string format_names() {
  std::vector<std::string> names;
  for (const auto* format : formats) names.emplace_back(format->name);
  return name_list(names);
}

const WeightsFormat* format_of(std::string_view head) {
  const auto* const found = std::ranges::find_if(
      formats, [&](const WeightsFormat* format) { return format->begins(head); });
  return found == formats.end() ? nullptr : *found;
}

/// The program that has packed a file; empty: none.
std::string_view packing_of(std::string_view head) {
  using namespace std::string_view_literals;
  using Packing = std::pair<std::string_view, std::string_view>;
  constexpr std::array packings{Packing{"\x1f\x8b"sv, "gzip"},
                                Packing{"\x28\xb5\x2f\xfd"sv, "zstd"},
                                Packing{"\xfd\x37zXZ\0"sv, "xz"},
                                Packing{"BZh"sv, "bzip2"}};
  const auto* const found = std::ranges::find_if(
      packings, [&](const Packing& packing) { return head.starts_with(packing.first); });
  return found == packings.end() ? std::string_view() : found->second;
}

}  // namespace

std::string packing_remark(const InputFile& file) {
  const auto packing = packing_of(first_bytes_of(file));
  return packing.empty() ? "" : formatted(", which is {}; unpack the file first", packing);
}

const WeightsFormat& weights_format(const fs::path& path) {
  const InputFile file(path);
  const auto head = first_bytes_of(file);
  if (const auto* const format = format_of(head)) return *format;
  if (file.size() == 0) refuse_file(path, "the file is empty; copy or save it again");
  if (head.starts_with(old_pytorch_head)) {
    refuse_file(path,
                "dimred cannot read the format of PyTorch before 1.6; write the file again with "
                "torch.save(torch.load(FILE, weights_only=True), FILE)");
  }
  if (head.starts_with("\x80"))
    refuse_file(
        path,
        "the file is a plain pickle, which could run code; write the file again with torch.save");
  refuse_file(
      path,
      formatted("needs one of the formats {}{}",
                format_names(),
                packing_of(head).empty()
                    ? "; save the weights of a TensorFlow or Keras checkpoint as safetensors"
                    : ", received a packed file"),
      file.placeholder_remark() + packing_remark(file));
}

bool has_weights_format(const InputFile& file) {
  return format_of(first_bytes_of(file)) != nullptr;
}

}  // namespace dimred::checkpoints
