// Decodes, resizes and prepares images as a Python test asks, one request a line on standard input;
// answers each with a line on standard output. Results are raw bytes (or float32) in a file.
//   decode FILE TOP LEFT HEIGHT WIDTH AT_LEAST_HEIGHT AT_LEAST_WIDTH CHANNELS OUT   (HEIGHT 0:
//   whole image) resize FILE TOP LEFT HEIGHT WIDTH OUT_HEIGHT OUT_WIDTH OUT enhance FILE
//   brightness|contrast|saturation FACTOR OUT prepare FILE RECIPE SIZE train|test SEED EPOCH INDEX
//   OUT
#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "data/decode.h"
#include "data/jitter.h"
#include "data/presets.h"
#include "data/read_file.h"
#include "data/resize.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

struct File {
  std::vector<std::uint8_t> bytes;
  Sample sample;
};

File read(std::istream& request) {
  std::string path;
  request >> path;
  File file;
  read_file(path, "image_tool", file.bytes);
  const auto encoding = sniff(file.bytes);
  require_environment(encoding.has_value(), "[image_tool] {}: neither JPEG nor PNG", path);
  file.sample = {.encoding = *encoding, .bytes = file.bytes};
  return file;
}

template <class Value>
void write(std::istream& request, const std::vector<Value>& values) {
  std::string path;
  request >> path;
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(Value)));
}

std::string decode_request(std::istream& request) {
  const auto file = read(request);
  Region region;
  Size at_least;
  int channels = 3;
  request >> region.top >> region.left >> region.height >> region.width >> at_least.height >>
      at_least.width >> channels;
  const auto shape = encoded_shape(file.sample);
  if (region.height == 0) region = {0, 0, shape.height, shape.width};
  Image image;
  decode(file.sample, region, at_least, channels, image);
  write(request, image.pixels);
  const auto& covers = image.covers;
  return formatted("{} {} {} {} {} {} {} {} {}",
                   shape.channels,
                   shape.height,
                   shape.width,
                   image.height,
                   image.width,
                   image.reduction,
                   covers.top,
                   covers.left,
                   image.damage);
}

std::string resize_request(std::istream& request) {
  const auto file = read(request);
  Region region;
  Size out;
  request >> region.top >> region.left >> region.height >> region.width >> out.height >> out.width;
  const auto image = decoded(file.sample, 3);
  std::vector<std::uint8_t> result(static_cast<std::size_t>(3 * out.height * out.width));
  ResizeScratch scratch;
  const Box box{static_cast<double>(region.top),
                static_cast<double>(region.left),
                static_cast<double>(region.height),
                static_cast<double>(region.width)};
  resize(image, box, out, {0, 0, out.height, out.width}, scratch, result.data());
  write(request, result);
  return "ok";
}

std::string enhance_request(std::istream& request) {
  const auto file = read(request);
  std::string what;
  float factor = 0;
  request >> what >> factor;
  auto image = decoded(file.sample, 3);
  if (what == "brightness") brighten(factor, image.pixels);
  if (what == "contrast") contrast(factor, image.pixels, 3);
  if (what == "saturation") saturate(factor, image.pixels, 3);
  write(request, image.pixels);
  return "ok";
}

Recipe recipe_named(const std::string& name) {
  const auto found =
      std::ranges::find(recipe_names(), name, &std::pair<std::string, Recipe>::first);
  require(found != recipe_names().end(), "[image_tool] no recipe {}", name);
  return found->second;
}

std::string prepare_request(std::istream& request) {
  const auto file = read(request);
  std::string name, split;
  std::int64_t size = 0, epoch = 0, index = 0;
  std::uint64_t seed = 0;
  request >> name >> size >> split >> seed >> epoch >> index;
  auto preprocessing = recipe(recipe_named(name), size);
  preprocessing.seed = seed;
  if (preprocessing.mean.empty()) {  // the data's; here pixel / 255
    preprocessing.mean.assign(3, 0);
    preprocessing.deviation.assign(3, 1);
  }
  if (split == "test") preprocessing = without_augmentation(preprocessing);
  const auto stored = encoded_shape(file.sample);
  ImageShape shape{
      static_cast<std::int64_t>(preprocessing.mean.size()), stored.height, stored.width};
  if (preprocessing.crop.cut != CropMode::none)
    shape.height = shape.width = preprocessing.crop.size;
  std::vector<float> out(static_cast<std::size_t>(shape.size()));
  PrepareScratch scratch;
  Preparer(preprocessing, shape).prepare(file.sample, epoch, index, scratch, out);
  write(request, out);
  RandomStream stream(seed,
                      RandomPurpose::augmentation,
                      static_cast<std::uint64_t>(epoch),
                      static_cast<std::uint64_t>(index));
  const auto [region, resized, window] =
      cut(preprocessing.crop, {stored.height, stored.width}, stream);
  return formatted("{} {} {} {} {} {} {} {}",
                   region.top,
                   region.left,
                   region.height,
                   region.width,
                   resized.height,
                   resized.width,
                   window.top,
                   window.left);
}

std::string answer(const std::string& line) {
  std::istringstream request(line);
  std::string kind;
  request >> kind;
  try {
    if (kind == "decode") return decode_request(request);
    if (kind == "resize") return resize_request(request);
    if (kind == "enhance") return enhance_request(request);
    if (kind == "prepare") return prepare_request(request);
    return "error: unknown request";
  } catch (const std::exception& error) {
    return formatted("error: {}", error.what());
  }
}

}  // namespace
}  // namespace dimred::data

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << dimred::data::answer(line) << '\n' << std::flush;
  return 0;
}
