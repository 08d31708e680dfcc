#include "run/data_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/json.h"

namespace dimred::run {
/// A rank's part of the report on data.
struct RankReport {
  std::int64_t bad = 0, damaged = 0;
  double waited = 0;  // seconds, over all epochs
  std::string advice;
  std::vector<std::string> messages;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, bad, damaged, waited, advice, messages)

namespace {

struct PipelineStage {
  const char* name;
  double seconds;
  const char* help;
};

std::array<PipelineStage, 4> stages_of(const data::LoaderReport& report) {
  return {
      {{"fetching",
        report.fetch_seconds,
        "a larger stream_cache (files stay for the next epoch) or more stream_fetches"},
       {"reading",
        report.read_seconds,
        "more num_preprocessing_threads, or one packed file instead of many (dimred data pack)"},
       {"decoding",
        report.decode_seconds,
        "more num_preprocessing_threads, or smaller images (dimred data pack)"},
       {"transforming",
        report.transform_seconds,
        "more num_preprocessing_threads, or no colour_jitter"}}};
}

/// The sum of all ranks' reports; the advice is from the rank that waited most.
RankReport sum_of(const std::vector<std::string>& texts) {
  RankReport sum;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const RankReport rank_report = nlohmann::json::parse(texts[rank]);
    const auto prefix = texts.size() > 1 ? formatted("rank {}: ", rank) : std::string();
    sum.bad += rank_report.bad;
    sum.damaged += rank_report.damaged;
    for (const auto& message : rank_report.messages) sum.messages.push_back(prefix + message);
    if (rank_report.advice.empty() || rank_report.waited <= sum.waited) continue;
    sum.waited = rank_report.waited;
    sum.advice = prefix + rank_report.advice;
  }
  return sum;
}

void warn_of_samples(const RankReport& sum, Console& console) {
  // Both kinds share the messages: the first belongs to the damaged only where none is bad.
  const auto first = sum.messages.empty() ? "" : formatted("; the first: {}", sum.messages.front());
  if (sum.bad > 0)
    console.warn(formatted("{} bad samples were skipped in this epoch{}", sum.bad, first));
  if (sum.damaged > 0)
    console.warn(
        formatted("{} damaged images were decoded only in part, and dimred used this part{}",
                  sum.damaged,
                  sum.bad > 0 ? std::string() : first));
}

void report_notes(const engine::DataSets& data, Console& console) {
  for (const auto& note : data.train->notes()) console.warn(note);
  if (data.test_is_train) console.warn(engine::test_is_train_text);
  if (!data.test || data.test == data.train) return;
  for (const auto& note : data.test->notes()) console.warn("test set: " + note);
}

}  // namespace

std::string advice(const data::LoaderReport& report, double seconds, std::int64_t threads) {
  constexpr double bearable = 0.05;
  if (report.samples == 0 || report.seconds_waited < bearable * seconds || seconds <= 0) return "";
  const auto share = std::lround(100 * report.seconds_waited / seconds);
  const auto stages = stages_of(report);
  const auto& slowest = *std::ranges::max_element(stages, {}, &PipelineStage::seconds);
  if (slowest.seconds == 0) {
    return formatted(
        "the step waited for data {} % of the time; a larger prefetch or more "
        "num_preprocessing_threads (now {}) may help",
        share,
        threads);
  }
  const auto microseconds = std::lround(1e6 * slowest.seconds / report.samples);
  return formatted(
      "the step waited for data {} % of the time; {} takes the longest, {} us per image on {} "
      "threads; {} would help",
      share,
      slowest.name,
      microseconds,
      threads,
      slowest.help);
}

void report_data(engine::Setup& setup,
                 const data::LoaderReport& report,
                 double seconds,
                 Console& console) {
  constexpr double long_enough = 5;  // seconds, not to warn of a first batch
  auto& all = setup.data.report;
  const bool first = all.training.batches == 0;
  all.seconds += seconds;
  auto own = report;  // its samples are counted with those of the other ranks
  own.bad_samples = own.damaged_samples = 0;
  own.messages.clear();
  add(all.training, own);
  const auto waited = all.training.seconds_waited;
  const bool due = !all.advised && all.seconds >= long_enough;
  const auto sum = sum_of(setup.communicator->gather(json_line(nlohmann::json(RankReport{
      report.bad_samples,
      report.damaged_samples,
      waited,
      due ? advice(all.training, all.seconds, setup.data.loading.threads) : std::string(),
      report.messages}))));
  all.training.bad_samples += sum.bad;
  all.training.damaged_samples += sum.damaged;
  for (const auto& message : sum.messages) data::take_note(all.training, message);
  all.advised = all.advised || !sum.advice.empty();
  if (setup.communicator->rank() != 0) return;
  warn_of_samples(sum, console);
  if (first) report_notes(setup.data, console);
  if (!sum.advice.empty()) console.warn(sum.advice);
}

nlohmann::json to_json(const engine::DataReport& all, bool with_validation) {
  const auto& report = all.training;
  const auto each = [&](double seconds) {
    return report.samples == 0 ? 0.0 : 1e6 * seconds / report.samples;
  };
  nlohmann::json json = {{"seconds_waited", report.seconds_waited},
                         {"mean_batches_ready", report.mean_ready},
                         {"batches", report.batches},
                         {"samples", report.samples},
                         {"read_us_per_sample", each(report.read_seconds)},
                         {"fetch_us_per_sample", each(report.fetch_seconds)},
                         {"decode_us_per_sample", each(report.decode_seconds)},
                         {"transform_us_per_sample", each(report.transform_seconds)},
                         {"bad_samples", report.bad_samples},
                         {"damaged_samples", report.damaged_samples},
                         {"first_bad_or_damaged", report.messages},
                         {"bad_test_samples", all.bad_test_samples}};
  if (with_validation) json["bad_validation_samples"] = all.bad_validation_samples;
  return json;
}

}  // namespace dimred::run
