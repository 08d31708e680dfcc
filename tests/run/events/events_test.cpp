#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "data/tfrecord.h"
#include "run/curve.h"
#include "support/list_files.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

/// By hand from event.proto and summary.proto: key = field << 3 | wire type.
TEST(EventMessages, AreTheProtobufBytes) {
  using namespace std::string_literals;
  const auto time = "\x09\0\0\0\0\0\0\xf8\x3f"s;  // field 1, fixed64, 1.5
  EXPECT_EQ(version_event(1.5), time + "\x1a\x0d" + "brain.Event:2");
  EXPECT_EQ(start_event(1.5, 300), time + "\x10\xac\x02\x3a\x02\x08\x01"s);
  EXPECT_EQ(scalars_event(1.5, 0, {{"a", 1}, {"bc", -2}}),
            time + "\x10\0\x2a\x15"s + "\x0a\x08\x0a\x01" + "a" + "\x15\0\0\x80\x3f"s +
                "\x0a\x09\x0a\x02" + "bc" + "\x15\0\0\0\xc0"s);
  EXPECT_TRUE(equal_apart_from_time(start_event(1, 2), start_event(3, 2)));
  EXPECT_FALSE(equal_apart_from_time(start_event(1, 2), start_event(1, 3)));
}

using Tags = std::vector<std::pair<std::string, double>>;

Tags tags(const EventRow& row) {
  Tags result;
  for (const auto& scalar : row.scalars) result.emplace_back(scalar.tag, scalar.value);
  return result;
}

TEST(EventRows, NumbersBecomeScalarsOfTheirWeights) {
  EventRows rows("stage,weights,epoch,step,images,seconds,test_loss\n", 1);
  EXPECT_EQ(tags(*rows.next("stage1,raw,1,20,100,2.000,\n")),
            (Tags{{"raw/epoch", 1},
                  {"raw/images", 100},
                  {"raw/seconds", 2},
                  {"raw/images_per_second", 50}}));
  const auto second = rows.next("stage1,recalibrated,2,30,100,3.000,0.5");
  EXPECT_EQ(second->step, 30);
  EXPECT_EQ(tags(*second),
            (Tags{{"recalibrated/epoch", 2},
                  {"recalibrated/images", 100},
                  {"recalibrated/seconds", 3},
                  {"recalibrated/test_loss", 0.5}}));
  EXPECT_EQ(rows.next("stage1,raw,3,40,160,5.000,")->scalars.back().value, 30);
  EXPECT_THROW(rows.next("stage1,raw"), std::runtime_error);
}

TEST(EventRows, TakesEveryNthStep) {
  EventRows rows("epoch,step,loss,update", 3);
  EXPECT_FALSE(rows.next("1,1,9,applied").has_value());
  EXPECT_EQ(tags(*rows.next("1,3,8,applied")), (Tags{{"step/epoch", 1}, {"step/loss", 8}}));
}

/// The curve of a run with events, and the steps that its event files hold.
class EventLogs : public testing::Test {
 protected:
  LineFile file() const {
    LineFile file(folder_.path() / "curve.csv");
    file.event_folder = folder_.path();
    return file;
  }

  static CurveRow row(std::int64_t step, const char* weights = "raw") {
    return {.stage = "stage1",
            .method = "sgd",
            .weights = weights,
            .step = step,
            .test_loss = 1.0 / static_cast<double>(step)};
  }

  std::vector<fs::path> event_files() const { return list_files(folder_.path(), {".dimred"}); }

  /// Payloads of all rows' records, without their times.
  std::vector<std::string> events() const {
    std::vector<std::string> result;
    for (const auto& path : event_files()) {
      const auto text = text_of_file(path);
      auto rest = std::as_bytes(std::span(text));
      for (int i = 0; const auto record = data::first_tfrecord(rest); ++i) {
        const std::string payload(reinterpret_cast<const char*>(record->payload.data()),
                                  record->payload.size());
        if (i >= 2) result.push_back(payload.substr(9));
        rest = rest.subspan(record->size);
      }
      EXPECT_TRUE(rest.empty());
    }
    return result;
  }

  /// The curve's rows as events: the oracle is an event log without any history.
  std::vector<std::string> expected() const {
    std::vector<std::string> result;
    std::ifstream csv(folder_.path() / "curve.csv");
    std::string line;
    std::getline(csv, line);
    EventRows rows(line, 1);
    while (std::getline(csv, line)) {
      const auto row = rows.next(line);
      result.push_back(scalars_event(0, row->step, row->scalars).substr(9));
    }
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(EventLogs, FollowTheCurve) {
  CurveWriter curve(file(), {});
  EXPECT_TRUE(event_files().empty());  // a run that is refused leaves none
  for (const int step : {10, 20}) {
    curve.append(row(step));
    EXPECT_EQ(events(), expected());  // flushed as it happens
  }
  EXPECT_EQ(event_files().size(), 1U);
}

TEST_F(EventLogs, AResumeLeavesNoStepTwice) {
  FilePrefix prefix;
  {
    CurveWriter curve(file(), {});
    for (const int step : {10, 20}) curve.append(row(step));
    prefix = curve.prefix();
    curve.append(row(20, "recalibrated"));
    curve.append(row(30));
  }
  CurveWriter again(file(), prefix);
  EXPECT_EQ(events().size(), 2U);
  EXPECT_EQ(events(), expected());
  again.append(row(20, "recalibrated"));
  again.append(row(30));
  EXPECT_EQ(events().size(), 4U);
  EXPECT_EQ(events(), expected());
  // The new file begins with what makes a live TensorBoard forget steps >= 21.
  ASSERT_EQ(event_files().size(), 2U);
  const auto text = text_of_file(event_files()[1]);
  EXPECT_NE(text.find(start_event(0, 21).substr(9)), std::string::npos);
}

TEST_F(EventLogs, AFreshStartBeginsAnew) {
  { CurveWriter(file(), {}).append(row(10)); }
  CurveWriter(file(), {}).append(row(15));
  EXPECT_EQ(events().size(), 1U);
  EXPECT_EQ(events(), expected());
}

TEST_F(EventLogs, TurnedOnLateTheyHaveTheEarlierRows) {
  FilePrefix prefix;
  {
    CurveWriter curve(LineFile(file().path), {});
    for (const int step : {10, 20}) curve.append(row(step));
    prefix = curve.prefix();
  }
  EXPECT_TRUE(event_files().empty());
  CurveWriter(file(), prefix).append(row(30));
  EXPECT_EQ(events().size(), 3U);
  EXPECT_EQ(events(), expected());
}

/// A torn end, a flipped bit, a file of zeros: what is damaged and all behind it is written again.
TEST_F(EventLogs, ADamagedFileIsMended) {
  FilePrefix prefix;
  for (int start = 0; start < 3; ++start) {
    CurveWriter curve(file(), prefix);
    for (const int row_number : {1, 2}) curve.append(row(20 * start + 10 * row_number));
    prefix = curve.prefix();
  }
  ASSERT_EQ(event_files().size(), 3U);
  const auto second = event_files()[1];
  const auto whole = text_of_file(second);
  for (const std::size_t place : {std::size_t{3}, whole.size() / 2, whole.size() - 1}) {
    auto damaged = whole;
    damaged[place] ^= 1;
    for (const auto& text : {whole.substr(0, place), damaged, std::string(place, '\0')}) {
      std::ofstream(second, std::ios::binary) << text;
      CurveWriter curve(file(), prefix);
      EXPECT_EQ(events().size(), 6U);
      EXPECT_EQ(events(), expected());
    }
  }
}

}  // namespace
}  // namespace dimred::run
