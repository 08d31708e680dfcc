#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/preprocess.h"
#include "engine/setup.h"

namespace dimred::serving {

/// A JPEG or PNG image: a file, or its bytes.
struct ImageSource {
  std::filesystem::path file;
  std::span<const std::uint8_t> bytes = {};  // of what `file` then only names
};

/// Images as evaluation prepares them, in batches of up to 64; calls take(first, images [n, C, H,
/// W] on the setup's device, errors [n]) for each, in order. An unusable image has an error that
/// says why, and zeros as values. Memory: a batch.
using TakeImages = std::function<void(
    std::size_t first, const torch::Tensor& images, const std::vector<std::string>& errors)>;
void prepare_images(const engine::Setup& setup,
                    std::span<const ImageSource> sources,
                    const TakeImages& take);

}  // namespace dimred::serving
