#include "run/data_report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

data::LoaderReport waiting(double seconds) {
  return {.seconds_waited = seconds,
          .batches = 10,
          .samples = 1000,
          .read_seconds = 0.1,
          .decode_seconds = 0.4,
          .transform_seconds = 0.2};
}

TEST(DataReport, AdvisesOnTheSlowestStage) {
  EXPECT_EQ(advice(waiting(0.49), 10, 3), "");  // a twentieth is bearable
  EXPECT_EQ(
      advice(waiting(2.5), 10, 3),
      "the step waited for data 25 % of the time; decoding takes the longest, 400 us per image on "
      "3 threads; more num_preprocessing_threads, or smaller images (dimred data pack) would help");
  auto report = waiting(5);
  report.read_seconds = 2;
  EXPECT_NE(advice(report, 10, 3).find("reading takes the longest, 2000 us"), std::string::npos);
  report.transform_seconds = 3;
  EXPECT_NE(advice(report, 10, 3).find("transforming takes the longest"), std::string::npos);
  report.fetch_seconds = 4;
  EXPECT_NE(
      advice(report, 10, 3)
          .find(
              "fetching takes the longest, 4000 us per image on 3 threads; a larger stream_cache"),
      std::string::npos);
  report.fetch_seconds = 0;
  report.read_seconds = report.decode_seconds = report.transform_seconds = 0;  // not measured
  EXPECT_NE(advice(report, 10, 3).find("50 % of the time; a larger prefetch"), std::string::npos);
  EXPECT_EQ(advice({}, 10, 3), "");
}

/// The console output of report_data(), epoch by epoch.
struct Telling : testing::Test {
  engine::Setup setup = engine::toy_setup(models::Precision::float32);
  std::string said(const data::LoaderReport& report, double seconds) {
    std::FILE* file = std::tmpfile();
    {
      Console console(/*quiet=*/true, file, file);
      report_data(setup, report, seconds, console);
    }
    std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
  }
};

/// Epochs of two seconds: each too short to warn of a first batch, together not.
TEST_F(Telling, AdvisesOnceOverAllEpochs) {
  EXPECT_EQ(said(waiting(1), 2), "");
  EXPECT_EQ(said(waiting(1), 2), "");
  EXPECT_NE(said(waiting(1), 2).find("warning: the step waited for data 50 % of the time"),
            std::string::npos);
  EXPECT_EQ(said(waiting(1), 2), "");
  EXPECT_DOUBLE_EQ(to_json(setup.data.report, false).at("seconds_waited").get<double>(), 4);
}

TEST_F(Telling, CountsAndNamesBadAndDamagedSamples) {
  data::LoaderReport report{.batches = 1, .samples = 8, .bad_samples = 2, .damaged_samples = 3};
  report.messages = {"a.jpg: [jpeg] bad", "b.jpg: ends early"};
  EXPECT_EQ(
      said(report, 1),
      "warning: 2 bad samples were skipped in this epoch; the first: a.jpg: [jpeg] bad\nwarning: 3 "
      "damaged images were decoded only in part, and dimred used this part\n");
  said(report, 1);
  setup.data.report.bad_test_samples = 5;
  const auto json = to_json(setup.data.report, false);
  EXPECT_EQ(json.at("bad_samples"), 4);
  EXPECT_EQ(json.at("damaged_samples"), 6);
  EXPECT_EQ(json.at("bad_test_samples"), 5);
  EXPECT_EQ(json.at("first_bad_or_damaged").at(0), "a.jpg: [jpeg] bad");
  EXPECT_FALSE(json.contains("bad_validation_samples"));
}

}  // namespace
}  // namespace dimred::run
