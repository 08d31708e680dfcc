#include "data/write_records.h"

#include <algorithm>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <utility>

#include "data/base64.h"
#include "data/class_names.h"
#include "data/encode.h"
#include "data/loader_report.h"
#include "data/parallel.h"
#include "data/permutation.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "support/atomic_file.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

std::string record_text(const Dataset& dataset, const Sample& sample, RecordForm form) {
  const auto file = to_file(sample);
  if (form == RecordForm::base64)
    return formatted("{}\t{}\n", to_base64(bytes_of(file)), sample.label);
  return to_tfrecord(
      to_message({.encoded = bytes_of(file),
                  .format = sample.encoding == Encoding::jpeg ? "jpeg" : "png",
                  .label = sample.label,
                  .class_name = dataset.class_names()[static_cast<std::size_t>(sample.label)]}));
}

void write_file(const Dataset& dataset,
                const RecordPlan& plan,
                std::int64_t number,
                const std::filesystem::path& path,
                const Progress& progress,
                LeftOut& left_out) {
  const auto files = std::ssize(plan.names);
  const auto first = number * plan.count / files, last = (number + 1) * plan.count / files;
  AtomicFile file(path);
  std::vector<std::uint8_t> scratch;
  std::string buffer;
  std::int64_t unreported = 0;
  const auto flush = [&] {
    file.append(std::as_bytes(std::span(buffer)));
    buffer.clear();
    progress(std::exchange(unreported, 0));
  };
  for (std::int64_t place = first; place < last; ++place, ++unreported) {
    const auto index = plan.sample(place);
    try {
      buffer += record_text(dataset, dataset.read(index, scratch), plan.form);
    } catch (const std::runtime_error&) {
      const auto failure = with_origin(std::current_exception(), dataset.origin(index));
      if (!plan.skip_bad) std::rethrow_exception(failure);
      if (left_out.count++ == 0) left_out.first = text_of(failure);
    }
    if (buffer.size() >= 1 << 20) flush();
  }
  flush();
  file.commit();
}

}  // namespace

LeftOut write_records(const Dataset& dataset,
                      const RecordPlan& plan,
                      const OutputFolder& folder,
                      const Progress& progress) {
  const auto files = plan.names.size();
  require(files >= 1 && plan.count >= std::ssize(plan.names),
          "[data] needs at least one sample for each of {} files, received {}",
          files,
          plan.count);
  std::vector<LeftOut> left_out(files);
  std::mutex mutex;  // one report at a time
  const Progress report = [&](std::int64_t samples) {
    const std::scoped_lock lock(mutex);
    if (progress) progress(samples);
  };
  in_parallel(files, static_cast<std::size_t>(plan.threads), [&](std::size_t i) {
    if (!folder.has(plan.names[i]))
      write_file(dataset,
                 plan,
                 static_cast<std::int64_t>(i),
                 folder.path() / plan.names[i],
                 report,
                 left_out[i]);
  });
  LeftOut sum;
  for (const auto& part : left_out) {
    if (sum.count == 0) sum.first = part.first;
    sum.count += part.count;
  }
  return sum;
}

std::vector<std::string> shard_names(const std::string& name, std::int64_t count) {
  std::vector<std::string> names;
  const auto five = [](std::int64_t number) {
    std::ostringstream out;
    out << std::setw(5) << std::setfill('0') << number;
    return out.str();
  };
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(formatted("{}-{}-of-{}", name, five(i), five(count)));
  return names;
}

void write_lists(const Dataset& dataset, const RecordPlan& plan, const OutputFolder& folder) {
  std::string labels, files;
  for (std::size_t i = 0; i < dataset.class_names().size(); ++i) {
    require_class_name(dataset.class_names()[i], "data", "labels.txt");
    labels += formatted("{}:{}\n", i, dataset.class_names()[i]);
  }
  write_file_atomically(folder.path() / "labels.txt", labels);
  if (plan.form != RecordForm::base64) return;
  for (const auto& name : plan.names) files += name + '\n';
  write_file_atomically(folder.path() / "file_list.txt", files);
}

std::vector<std::int64_t> shuffled_indices(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
  for (std::int64_t place = 0; place < size; ++place)
    indices[static_cast<std::size_t>(place)] = permute(place, size, seed, RandomPurpose::order, 0);
  return indices;
}

RecordPlan conversion_plan(RecordForm form,
                           std::vector<std::string> names,
                           std::int64_t size,
                           std::optional<std::uint64_t> seed) {
  RecordPlan plan{.form = form, .names = std::move(names), .count = size};
  plan.sample = [size, seed](std::int64_t place) {
    return seed ? permute(place, size, *seed, RandomPurpose::order, 0) : place;
  };
  return plan;
}

RecordPlan shuffle_split_plan(std::int64_t size, std::int64_t ranks, std::uint64_t seed) {
  require(size >= 1 && ranks >= 1,
          "[data::shuffle_split] needs at least one sample and one rank, received {} and {}",
          size,
          ranks);
  RecordPlan plan{.form = RecordForm::base64, .count = (size + ranks - 1) / ranks * ranks};
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    plan.names.push_back(formatted("base64_rank_{}", rank));
  plan.sample = [size, seed](std::int64_t place) {
    if (place < size) return permute(place, size, seed, RandomPurpose::order, 0);
    const auto again = place - size;
    return permute(
        again % size, size, seed, RandomPurpose::padding, static_cast<std::uint64_t>(again / size));
  };
  return plan;
}

}  // namespace dimred::data
