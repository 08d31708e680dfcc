#include "support/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "support/errors.h"
#include "support/formatted.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred {
namespace {

constexpr double seconds_between_bars = 0.1;
constexpr double seconds_between_plain_lines = 30;
constexpr std::size_t widest_bar = 30, narrowest_bar = 8;

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

/// A piece of the line; the one of least weight goes first when there is no room.
struct StatusField {
  std::string text;
  int weight;
};

std::string rate_text(double per_second) {
  return std::isfinite(per_second) && per_second < 1e15 ? count_text(std::llround(per_second))
                                                        : "?";
}

std::vector<StatusField> fields_of(const ProgressState& state) {
  std::vector<StatusField> fields = {{state.label, 9}};
  if (state.total > 0) {
    fields.push_back({formatted("{}/{}", count_text(state.done), count_text(state.total)), 3});
  }
  if (state.loss) fields.push_back({formatted("loss {}", decimal_text(*state.loss, 4)), 8});
  if (state.accuracy) {
    fields.push_back({formatted("accuracy {} %", decimal_text(100 * *state.accuracy, 2)), 7});
  }
  if (state.images_per_second) {
    fields.push_back({rate_text(*state.images_per_second) + " images/s", 5});
  }
  if (state.compute_per_second) {
    fields.push_back({formatted("(compute {})", rate_text(*state.compute_per_second)), 2});
  }
  if (state.seconds_left) fields.push_back({duration_text(*state.seconds_left) + " left", 6});
  return fields;
}

std::size_t width_of(const std::vector<StatusField>& fields) {
  std::size_t width = 0;
  for (const auto& field : fields) width += field.text.size() + 2;
  return width;
}

/// "[=====>    ]" of `width` columns.
std::string bar(double fraction, std::size_t width) {
  const std::size_t inside = width - 2;
  const std::size_t filled = std::clamp(fraction, 0.0, 1.0) * inside;
  std::string text(filled, '=');
  if (filled < inside) text += '>';
  text.resize(inside, ' ');
  return '[' + text + ']';
}

/// The characters of one line in UTF-8, without its line end.
std::size_t columns_of(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return c != '\n' && (c & 0xC0) != 0x80; });
}

/// The column at which a line longer than `width` goes on: the second one, if that leaves half of
/// the width.
std::size_t continuation_of(std::string_view line, std::size_t width) {
  const auto first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return 0;
  const auto gap = line.find("  ", first);
  const auto second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (second <= width / 2) return second;
  return std::min(first + 2, width / 2);
}

/// The last blank before which at most `width` columns stand, else the first one; npos: none, or
/// nothing behind it.
std::size_t break_of(std::string_view line, std::size_t width) {
  auto best = std::string_view::npos;
  for (auto at = line.find(' ', line.find_first_not_of(' ')); at < line.size();
       at = line.find(' ', at + 1)) {
    if (line[at - 1] == ' ') continue;
    const bool fits = columns_of(line.substr(0, at)) <= width;
    const bool is_last = line.find_first_not_of(" \n", at) == std::string_view::npos;
    if (is_last || (!fits && best != std::string_view::npos)) break;
    best = at;
  }
  return best;
}

}  // namespace

std::size_t terminal_columns(std::FILE* stream) {
  if (!is_terminal(stream)) return 0;
  winsize size{};
  const bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string wrapped(std::string_view text, std::size_t width, std::optional<std::size_t> indent) {
  std::string all;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    auto line = text.substr(begin, end - begin);
    begin = end;
    const auto column = indent.value_or(continuation_of(line, width));
    std::size_t free = width;
    while (columns_of(line) > free) {
      const auto at = break_of(line, free);
      if (at == std::string_view::npos) break;
      all.append(line.substr(0, at)).append("\n").append(column, ' ');
      line.remove_prefix(line.find_first_not_of(' ', at));
      free = width - column;
    }
    all.append(line);
  }
  return all;
}

std::string progress_line(const ProgressState& state, std::size_t width) {
  auto fields = fields_of(state);
  const std::size_t reserved = state.total > 0 ? narrowest_bar + 2 : 0;
  while (fields.size() > 1 && width_of(fields) - 2 + reserved > width) {
    fields.erase(std::ranges::min_element(fields, {}, &StatusField::weight));
  }
  const std::size_t used = width_of(fields);  // the bar's two blanks stand for the last field's
  if (state.total > 0 && used + narrowest_bar <= width) {
    const double fraction = 1.0 * state.done / state.total;
    fields.insert(fields.begin() + 1, {bar(fraction, std::min(widest_bar, width - used)), 9});
  }
  return joined(fields, "  ", [](const StatusField& field) { return field.text; }).substr(0, width);
}

void put_text(std::FILE* stream, std::string_view text) {
  auto shown = terminal_text(text);
  if (const auto columns = terminal_columns(stream); columns > 0) shown = wrapped(shown, columns);
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

Console::Console(bool quiet, std::FILE* lines, std::FILE* bar)
    : lines_(lines), bar_(bar), quiet_(quiet), terminal_(is_terminal(bar)) {}

Console::~Console() { clear(); }

void Console::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1B[K", bar_);
  std::fflush(bar_);
  drawn_ = false;
}

void Console::warn(std::string_view text) {
  clear();
  put_text(bar_, formatted("warning: {}\n", text));
}

void Console::line(std::string_view text) {
  if (quiet_) return;
  clear();
  put_text(lines_, formatted("{}\n", text));
  std::fflush(lines_);
  since_drawn_.reset();
  since_line_.restart();
}

void Console::progress(const ProgressState& state) {
  if (quiet_) return;
  if (!terminal_) {
    if (since_line_.seconds() >= seconds_between_plain_lines) line(progress_line(state, 1000));
    return;
  }
  if (since_drawn_ && since_drawn_->seconds() < seconds_between_bars) return;
  // The last column stays empty: writing there makes some terminals start a new line.
  const auto text = progress_line(state, terminal_columns(bar_) - 1);
  std::fputs(formatted("\r{}\x1B[K", text).c_str(), bar_);
  std::fflush(bar_);
  drawn_ = true;
  since_drawn_.emplace();
}

}  // namespace dimred
