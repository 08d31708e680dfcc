#include "data/write_records.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "data/base64.h"
#include "data/class_names.h"
#include "data/encode.h"
#include "data/loader_report.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "support/atomic_file.h"
#include "support/bytes.h"
#include "support/ceiling.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/random.h"
#include "support/text.h"

namespace dimred::data {
namespace {

std::string record_text(const Dataset& dataset, const Sample& sample, RecordForm form) {
  const auto file = to_file(sample);
  if (form == RecordForm::base64)
    return formatted("{}\t{}\n", to_base64(bytes_of(file)), sample.label);
  return to_tfrecord(to_message({.encoded = bytes_of(file),
                                 .format = sample.encoding == Encoding::jpeg ? "jpeg" : "png",
                                 .label = sample.label,
                                 .class_name = dataset.class_names()[sample.label]}));
}

void write_file(const Dataset& dataset,
                const RecordPlan& plan,
                std::int64_t number,
                const std::filesystem::path& path,
                const Progress& progress,
                WriteReport& report) {
  const auto files = std::ssize(plan.names);
  const auto first = number * plan.count / files, last = (number + 1) * plan.count / files;
  AtomicFile file(path);
  std::vector<std::uint8_t> scratch;
  std::string buffer;
  std::int64_t unreported = 0;
  const auto flush = [&] {
    file.append(buffer);
    buffer.clear();
    progress(std::exchange(unreported, 0));
  };
  for (std::int64_t position = first; position < last; ++position, ++unreported) {
    const auto index = plan.sample(position);
    try {
      buffer += record_text(dataset, dataset.read(index, scratch), plan.form);
    } catch (const std::runtime_error& error) {
      const auto failure = with_origin(error, dataset.origin(index));
      if (!plan.skip_bad) throw failure;
      if (report.bad++ == 0) report.first_bad = failure.what();
    }
    if (buffer.size() >= 1 << 20) flush();
  }
  flush();
  const auto* const advice =
      files > 1 ? "; give fewer --files, so that each file has more samples" : "";
  report.samples = last - first - report.bad;
  require_environment(report.samples > 0,
                      "[data] cannot write {}: none of its samples can be read ({}){}",
                      path.filename(),
                      report.first_bad,
                      advice);
  file.commit();
}

/// The lines of labels.txt. Throws std::invalid_argument for a name that would be read otherwise
/// than it is.
std::string labels_text(const Dataset& dataset) {
  std::string labels;
  for (std::size_t i = 0; i < dataset.class_names().size(); ++i) {
    const auto& name = dataset.class_names()[i];
    require_class_name(name, "data", "labels.txt");
    require(trimmed(name) == name,
            "[data] a class name in labels.txt must not begin or end with a space, received '{}'; "
            "rename the class, or convert with --to packed",
            name);
    labels += formatted("{}:{}\n", i, name);
  }
  return labels;
}

}  // namespace

WriteReport write_records(const Dataset& dataset,
                          const RecordPlan& plan,
                          const OutputFolder& folder,
                          const Progress& progress) {
  const auto files = plan.names.size();
  require(files >= 1 && plan.count >= std::ssize(plan.names),
          "[data] needs at least one sample for each of {} files, received {} samples",
          files,
          plan.count);
  labels_text(dataset);  // before anything is written
  std::vector<WriteReport> reports(files);
  std::mutex mutex;  // one report at a time
  const Progress report = [&](std::int64_t samples) {
    const std::scoped_lock lock(mutex);
    if (progress) progress(samples);
  };
  in_parallel(files, plan.threads, [&](std::size_t i) {
    if (folder.has(plan.names[i]))
      reports[i].earlier_files = 1;
    else
      write_file(dataset, plan, i, folder.path() / plan.names[i], report, reports[i]);
  });
  WriteReport sum;
  for (const auto& part : reports) {
    if (sum.bad == 0) sum.first_bad = part.first_bad;
    sum.bad += part.bad;
    sum.samples += part.samples;
    sum.earlier_files += part.earlier_files;
  }
  return sum;
}

ReadableSamples readable_samples(const Dataset& dataset, std::int64_t threads) {
  const auto size = dataset.size();
  const auto parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, size));
  std::vector<ReadableSamples> found(parts);
  in_parallel(found.size(), found.size(), [&](std::size_t part) {
    auto& [indices, left_out] = found[part];
    std::vector<std::uint8_t> scratch;
    const std::int64_t number = part;
    for (auto i = number * size / parts; i < (number + 1) * size / parts; ++i) {
      try {
        dataset.read(i, scratch);
        indices.push_back(i);
      } catch (const std::runtime_error& error) {
        if (left_out.count++ == 0) left_out.first = with_origin(error, dataset.origin(i)).what();
      }
    }
  });
  ReadableSamples all;
  for (const auto& [indices, left_out] : found) {
    all.indices.insert(all.indices.end(), indices.begin(), indices.end());
    if (all.left_out.count == 0) all.left_out.first = left_out.first;
    all.left_out.count += left_out.count;
  }
  return all;
}

std::vector<std::string> shard_names(const std::string& name, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(formatted("{}-{}-of-{}", name, padded(i, 5), padded(count, 5)));
  return names;
}

void write_lists(const Dataset& dataset, const RecordPlan& plan, const OutputFolder& folder) {
  write_file_atomically(folder.path() / "labels.txt", labels_text(dataset));
  if (plan.form != RecordForm::base64) return;
  std::string files;
  for (const auto& name : plan.names) files += name + '\n';
  write_file_atomically(folder.path() / "file_list.txt", files);
}

std::vector<std::int64_t> shuffled_indices(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> indices;
  for (std::int64_t position = 0; position < size; ++position)
    indices.push_back(permuted(position, size, seed, RandomPurpose::order, 0));
  return indices;
}

RecordPlan conversion_plan(RecordForm form,
                           std::vector<std::string> names,
                           std::int64_t size,
                           std::optional<std::uint64_t> seed) {
  RecordPlan plan{.form = form, .names = std::move(names), .count = size};
  plan.sample = [size, seed](std::int64_t position) {
    return seed ? permuted(position, size, *seed, RandomPurpose::order, 0) : position;
  };
  return plan;
}

RecordPlan shuffle_split_plan(std::int64_t size, std::int64_t ranks, std::uint64_t seed) {
  require(size >= 1 && ranks >= 1,
          "[data] needs at least one sample and one rank, received {} and {}",
          size,
          ranks);
  RecordPlan plan{.form = RecordForm::base64, .count = ceiling(size, ranks) * ranks};
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    plan.names.push_back(formatted("base64_rank_{}", rank));
  plan.sample = [size, seed](std::int64_t position) {
    if (position < size) return permuted(position, size, seed, RandomPurpose::order, 0);
    const auto again = position - size;
    return permuted(again % size, size, seed, RandomPurpose::padding, again / size);
  };
  return plan;
}

}  // namespace dimred::data
