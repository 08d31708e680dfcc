#include "training/data_report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/errors.h"

namespace dimred::training {
namespace {

struct Stage {
  const char* name;
  double seconds;
  const char* help;
};

std::array<Stage, 3> stages_of(const data::LoaderReport& report) {
  return {
      {{"reading",
        report.read_seconds,
        "more num_preprocessing_threads, or one packed file instead of many (dimred data pack)"},
       {"decoding",
        report.decode_seconds,
        "more num_preprocessing_threads, or smaller images (dimred data pack)"},
       {"transforming",
        report.transform_seconds,
        "more num_preprocessing_threads, or no colour_jitter"}}};
}

void warn_of_samples(const data::LoaderReport& report, double bad, Console& console) {
  const auto first =
      report.messages.empty() ? "" : concat("; on this rank: ", report.messages.front());
  if (bad > 0) {
    console.warn(concat(bad, " bad samples were skipped in this epoch", first));
  } else if (report.damaged_samples > 0) {
    console.warn(
        concat(report.damaged_samples, " damaged images were used as far as they go", first));
  }
}

}  // namespace

std::string advice(const data::LoaderReport& report, double seconds, std::int64_t threads) {
  constexpr double bearable = 0.05;
  if (report.samples == 0 || report.seconds_waited < bearable * seconds || seconds <= 0) return "";
  const auto share = std::lround(100 * report.seconds_waited / seconds);
  const auto stages = stages_of(report);
  const auto& slowest =
      *std::max_element(stages.begin(), stages.end(), [](const Stage& a, const Stage& b) {
        return a.seconds < b.seconds;
      });
  if (slowest.seconds == 0) {
    return concat("the step waited for data ",
                  share,
                  " % of the time; a larger prefetch or more num_preprocessing_threads (now ",
                  threads,
                  ") may help");
  }
  const auto microseconds =
      std::lround(1e6 * slowest.seconds / static_cast<double>(report.samples));
  return concat("the step waited for data ",
                share,
                " % of the time; ",
                slowest.name,
                " costs most, ",
                microseconds,
                " us an image on ",
                threads,
                " threads: ",
                slowest.help,
                " would help");
}

void tell(Setup& setup, const data::LoaderReport& report, double seconds, Console& console) {
  const bool first = setup.data_report.batches == 0;
  add(setup.data_report, report);
  std::array<double, 1> bad{static_cast<double>(report.bad_samples)};
  if (setup.loading.bad_sample != data::BadSample::fail) setup.communicator->all_reduce(bad);
  if (setup.communicator->rank() != 0) return;
  warn_of_samples(report, bad[0], console);
  constexpr double long_enough = 5;  // seconds, not to warn of a first batch
  if (!first) return;
  for (const auto& note : setup.train->notes()) console.warn(note);
  const auto text = advice(report, seconds, setup.loading.threads);
  if (!text.empty() && seconds >= long_enough) console.warn(text);
}

nlohmann::json to_json(const data::LoaderReport& report) {
  const auto each = [&](double seconds) {
    return report.samples == 0 ? 0.0 : 1e6 * seconds / static_cast<double>(report.samples);
  };
  return {{"seconds_waited", report.seconds_waited},
          {"mean_batches_ready", report.mean_ready},
          {"batches", report.batches},
          {"samples", report.samples},
          {"read_us_per_sample", each(report.read_seconds)},
          {"decode_us_per_sample", each(report.decode_seconds)},
          {"transform_us_per_sample", each(report.transform_seconds)},
          {"bad_samples", report.bad_samples},
          {"damaged_samples", report.damaged_samples}};
}

}  // namespace dimred::training
