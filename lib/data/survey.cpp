#include "data/survey.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include "data/decode.h"
#include "data/loader_report.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::data {
namespace {

constexpr std::size_t problems_kept = 10;
constexpr auto unset = std::numeric_limits<std::int64_t>::max();

std::string kind_text(const Sample& sample, const ImageShape& shape) {
  const char* names[] = {"planes", "jpeg", "png"};
  return formatted(
      "{}{}", names[static_cast<int>(sample.encoding)], shape.channels == 1 ? " grey" : " colour");
}

void widen(Survey& survey, const ImageShape& smallest, const ImageShape& largest) {
  survey.smallest.height = std::min(survey.smallest.height, smallest.height);
  survey.smallest.width = std::min(survey.smallest.width, smallest.width);
  survey.largest.height = std::max(survey.largest.height, largest.height);
  survey.largest.width = std::max(survey.largest.width, largest.width);
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
    ++found.class_counts[sample.label];
    found.bytes += std::ssize(sample.bytes);
    const auto shape = encoded_shape(sample);
    ++found.encodings[kind_text(sample, shape)];
    widen(found, shape, shape);
    if (!decode || sample.encoding == Encoding::planes) return;
    const auto damage = decoded(sample, shape.channels).damage;
    if (!damage.empty()) throw std::runtime_error(damage);
  } catch (const std::runtime_error& error) {
    if (std::cmp_less(found.problem_count++, problems_kept))
      found.problems.push_back(with_origin(error, dataset.origin(index)).what());
  }
}

Survey nothing_yet(const Dataset& dataset) {
  Survey survey;
  survey.class_counts.resize(dataset.classes());
  survey.smallest = {0, unset, unset};
  return survey;
}

void add_survey(const Survey& part, Survey& sum) {
  for (std::size_t i = 0; i < sum.class_counts.size(); ++i)
    sum.class_counts[i] += part.class_counts[i];
  for (const auto& [name, count] : part.encodings) sum.encodings[name] += count;
  sum.bytes += part.bytes;
  widen(sum, part.smallest, part.largest);
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
  require(count >= 1 && count <= size, "[data] needs 1 to {} samples, received {}", size, count);
  // One part a thread, so that the problems kept are the first of each by index.
  const auto parts = std::min(threads, count);
  std::vector<Survey> found(parts, nothing_yet(dataset));
  std::mutex mutex;
  in_parallel(found.size(), found.size(), [&](std::size_t part) {
    std::vector<std::uint8_t> scratch;
    const std::int64_t number = part;
    constexpr std::int64_t report = 32;  // photographs take some 10 ms each
    std::int64_t unreported = 0;
    const auto report_progress = [&] {
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
      if (++unreported == report) report_progress();
    }
    report_progress();
  });
  Survey sum = nothing_yet(dataset);
  sum.samples = count;
  for (const auto& part : found) add_survey(part, sum);
  if (sum.smallest.height == unset) sum.smallest = {};
  return sum;
}

}  // namespace dimred::data
