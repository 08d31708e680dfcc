#include "data/survey.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>

#include "data/decode.h"
#include "data/loader_report.h"
#include "data/parallel.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::size_t problems_kept = 10;
constexpr auto unset = std::numeric_limits<std::int64_t>::max();

std::string kind_text(const Sample& sample, const ImageShape& shape) {
  const char* names[] = {"planes", "jpeg", "png"};
  return formatted(
      "{}{}", names[static_cast<int>(sample.encoding)], shape.channels == 1 ? " grey" : " colour");
}

void look_at(const Dataset& dataset,
             std::int64_t index,
             bool decode,
             std::vector<std::uint8_t>& scratch,
             Survey& found) {
  try {
    const auto sample = dataset.read(index, scratch);
    require_environment(sample.label >= 0 && sample.label < dataset.classes(),
                        "[data] needs a label below {}, received {}",
                        dataset.classes(),
                        sample.label);
    ++found.class_counts[static_cast<std::size_t>(sample.label)];
    found.bytes += std::ssize(sample.bytes);
    const auto shape = sample.encoding == Encoding::planes ? sample.shape : encoded_shape(sample);
    ++found.encodings[kind_text(sample, shape)];
    found.smallest.height = std::min(found.smallest.height, shape.height);
    found.smallest.width = std::min(found.smallest.width, shape.width);
    found.largest.height = std::max(found.largest.height, shape.height);
    found.largest.width = std::max(found.largest.width, shape.width);
    if (!decode || sample.encoding == Encoding::planes) return;
    const auto damage = decoded(sample, static_cast<int>(shape.channels)).damage;
    if (!damage.empty()) throw std::runtime_error(damage);
  } catch (const std::runtime_error&) {
    if (found.problem_count++ < static_cast<std::int64_t>(problems_kept))
      found.problems.push_back(
          text_of(with_origin(std::current_exception(), dataset.origin(index))));
  }
}

Survey nothing_yet(const Dataset& dataset) {
  Survey survey;
  survey.class_counts.resize(static_cast<std::size_t>(dataset.classes()));
  survey.smallest = {0, unset, unset};
  return survey;
}

void add(const Survey& part, Survey& sum) {
  for (std::size_t i = 0; i < sum.class_counts.size(); ++i)
    sum.class_counts[i] += part.class_counts[i];
  for (const auto& [name, count] : part.encodings) sum.encodings[name] += count;
  sum.bytes += part.bytes;
  sum.smallest.height = std::min(sum.smallest.height, part.smallest.height);
  sum.smallest.width = std::min(sum.smallest.width, part.smallest.width);
  sum.largest.height = std::max(sum.largest.height, part.largest.height);
  sum.largest.width = std::max(sum.largest.width, part.largest.width);
  sum.problem_count += part.problem_count;
  std::ranges::copy(part.problems, std::back_inserter(sum.problems));
  sum.problems.resize(std::min(sum.problems.size(), problems_kept));
}

}  // namespace

Survey survey(const Dataset& dataset,
              std::int64_t count,
              std::int64_t threads,
              const Progress& progress,
              bool decode) {
  const auto size = dataset.size();
  require(count >= 1 && count <= size,
          "[data::survey] needs 1 to {} samples, received {}",
          size,
          count);
  // One part a thread, so that the problems kept are the first of each by index.
  const auto parts = std::min(threads, count);
  std::vector<Survey> found(static_cast<std::size_t>(parts), nothing_yet(dataset));
  std::mutex mutex;
  in_parallel(found.size(), found.size(), [&](std::size_t part) {
    std::vector<std::uint8_t> scratch;
    const auto number = static_cast<std::int64_t>(part);
    constexpr std::int64_t report = 1024;
    std::int64_t unreported = 0;
    const auto tell = [&] {
      const std::scoped_lock lock(mutex);
      if (progress) progress(unreported);
      unreported = 0;
    };
    for (auto i = number * count / parts; i < (number + 1) * count / parts; ++i) {
      look_at(dataset,
              static_cast<std::int64_t>(static_cast<__int128>(i) * size / count),
              decode,
              scratch,
              found[part]);
      if (++unreported == report) tell();
    }
    tell();
  });
  Survey sum = nothing_yet(dataset);
  sum.samples = count;
  for (const auto& part : found) add(part, sum);
  if (sum.smallest.height == unset) sum.smallest = {};
  return sum;
}

}  // namespace dimred::data
