#include "support/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "support/errors.h"

namespace dimred {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgressState full_state() {
  ProgressState state{"epoch 3/18", 27000, 60000};
  state.loss = 0.31416;
  state.accuracy = 0.8912;
  state.images_per_second = 12345.4;
  state.compute_per_second = 13000;
  state.seconds_left = 185;
  return state;
}

TEST(Wrapped, BreaksAtBlanksAndGoesOnUnderTheLinesSecondColumn) {
  EXPECT_EQ(wrapped("short\n", 10), "short\n");
  EXPECT_EQ(wrapped("one two three four\nnext", 10), "one two\n  three\n  four\nnext");
  EXPECT_EQ(wrapped("one two three four\n", 10, 4), "one two\n    three\n    four\n");
  EXPECT_EQ(wrapped("name  one two three\n", 14), "name  one two\n      three\n");
  EXPECT_EQ(wrapped("/a/path/longer/than/that is\n", 10), "/a/path/longer/than/that\n  is\n");
  EXPECT_EQ(wrapped("0123456789\n\n0123456789 \n", 10), "0123456789\n\n0123456789 \n");
  EXPECT_EQ(
      wrapped("\u00e4\u00f6\u00fc\u00e4\u00f6 \u00e4\u00f6\u00fc\n", 9),  // two bytes a column
      "\u00e4\u00f6\u00fc\u00e4\u00f6 \u00e4\u00f6\u00fc\n");
}

TEST(ProgressLine, ShowsEverythingWhenThereIsRoom) {
  EXPECT_EQ(progress_line(full_state(), 200),
            "epoch 3/18  [============>               ]  27,000/60,000  loss 0.3142  "
            "accuracy 89.12 %  12,345 images/s  (compute 13,000)  3 min 05 s left");
}

TEST(ProgressLine, FitsEveryWidthAndKeepsTheLabelLongest) {
  for (std::size_t width = 0; width <= 200; ++width) {
    const auto line = progress_line(full_state(), width);
    ASSERT_LE(line.size(), width);
    if (width >= 10) {
      ASSERT_THAT(line, testing::StartsWith("epoch 3/18"));
    }
  }
  const auto line = progress_line(full_state(), 79);
  EXPECT_THAT(line, HasSubstr("loss 0.3142"));
  EXPECT_THAT(line, Not(HasSubstr("compute")));
}

TEST(ProgressLine, FillsItsWidthFromEmptyToFull) {
  ProgressState state{"x", 0, 10};
  EXPECT_EQ(progress_line(state, 20), "x  [>        ]  0/10");
  state.done = 10;
  EXPECT_EQ(progress_line(state, 20), "x  [========]  10/10");
  state.done = 99;  // more than announced: full, not beyond
  EXPECT_EQ(progress_line(state, 20), "x  [========]  99/10");
}

TEST(ProgressLine, HasNoBarWithoutATotal) {
  EXPECT_EQ(progress_line(ProgressState{"reading"}, 80), "reading");
}

/// A stream that keeps what was written to it.
class Captured {
 public:
  Captured() : stream_(std::tmpfile()) {}
  ~Captured() { std::fclose(stream_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::FILE* stream() const { return stream_; }
  std::string text() const {
    std::fflush(stream_);
    std::rewind(stream_);
    std::string out;
    for (int letter; (letter = std::fgetc(stream_)) != EOF;) out += static_cast<char>(letter);
    return out;
  }

 private:
  std::FILE* stream_;
};

/// A real pseudo-terminal of a given width; read() returns what a person's screen was sent.
class Terminal {
 public:
  explicit Terminal(unsigned short width) : master_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    setenv("TERM", "xterm", 1);
    if (grantpt(master_) != 0 || unlockpt(master_) != 0) throw std::runtime_error("no terminal");
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    termios raw{};
    tcgetattr(slave, &raw);
    raw.c_oflag = 0;  // no "\r" before "\n" of the line discipline's own
    tcsetattr(slave, TCSANOW, &raw);
    const winsize size{24, width, 0, 0};
    ioctl(slave, TIOCSWINSZ, &size);
    stream_ = fdopen(slave, "w");
  }
  ~Terminal() {
    std::fclose(stream_);
    close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  std::FILE* stream() const { return stream_; }
  std::string text() const {
    std::array<char, 4096> buffer{};
    std::string out;
    for (ssize_t n; (n = read(master_, buffer.data(), buffer.size())) > 0;) {
      out.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return out;
  }

 private:
  int master_;
  std::FILE* stream_;
};

TEST(Console, PrintsPlainLinesWithoutATerminal) {
  const Captured lines, bar;
  {
    Console console(false, lines.stream(), bar.stream());
    console.progress(full_state());
    console.line("epoch 1 done");
    console.progress(full_state());
    console.line("epoch 2 done");
  }
  EXPECT_EQ(lines.text(), "epoch 1 done\nepoch 2 done\n");
  EXPECT_EQ(bar.text(), "");
}

TEST(Console, QuietPrintsNothing) {
  const Captured lines;
  const Terminal terminal(80);
  {
    Console console(true, lines.stream(), terminal.stream());
    console.progress(full_state());
    console.line("epoch 1 done");
  }
  EXPECT_EQ(lines.text(), "");
  EXPECT_EQ(terminal.text(), "");
}

TEST(Console, DrawsOneLineWithinTheTerminal) {
  const Captured lines;
  const Terminal terminal(60);
  Console console(false, lines.stream(), terminal.stream());
  console.progress(full_state());
  const auto text = terminal.text();
  EXPECT_EQ(text, formatted("\r{}\x1B[K", progress_line(full_state(), 59)));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(Console, LinesGoAboveTheBarAndTheBarGoesAtTheEnd) {
  const Terminal terminal(60);
  {
    Console console(false, terminal.stream(), terminal.stream());
    console.progress({"a"});
    console.line("permanent");
    console.progress({"b"});  // at once: the line has taken the bar away
  }
  EXPECT_EQ(terminal.text(), "\ra\x1B[K\r\x1B[Kpermanent\n\rb\x1B[K\r\x1B[K");
}

TEST(Console, RedrawsAtMostTenTimesASecond) {
  const Captured lines;
  const Terminal terminal(60);
  Console console(false, lines.stream(), terminal.stream());
  const Stopwatch watch;
  while (watch.seconds() < 0.35) console.progress({"x"});
  const double elapsed = watch.seconds();  // may be more: the machine can be busy
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  console.progress({"x"});
  const auto text = terminal.text();
  const auto drawn = std::count(text.begin(), text.end(), 'x');
  EXPECT_GE(drawn, 2);                      // the first and the last are due whatever happens
  EXPECT_LE(drawn, elapsed / 0.1 + 1 + 1);  // at 0, 0.1, 0.2, ... and after the pause
}

TEST(Console, DumbTerminalGetsNoBar) {
  const Captured lines;
  const Terminal terminal(60);
  setenv("TERM", "dumb", 1);
  Console console(false, lines.stream(), terminal.stream());
  console.progress(full_state());
  EXPECT_EQ(terminal.text(), "");
}

TEST(ScopedSeconds, AddsItsLifetime) {
  double total = 1;
  {
    const ScopedSeconds waiting(total);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(total, 1.02);
  EXPECT_LT(total, 6);  // a machine may be busy, but not for seconds
}

TEST(Stopwatch, RestartReturnsAndForgetsThePast) {
  Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double past = watch.restart();
  EXPECT_GE(past, 0.02);
  EXPECT_LT(watch.seconds(), past + 5);
}

}  // namespace
}  // namespace dimred
