#include "commands/schedule_drawing.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/errors.h"
#include "support/human.h"
#include "support/option_values.h"

namespace dimred::commands {
namespace {

/// Least and greatest rate of steps [begin, end).
std::pair<double, double> bounds(const RateCurve& curve, std::size_t begin, std::size_t end) {
  const auto first = curve.rates.begin();
  const auto [low, high] = std::minmax_element(first + static_cast<std::ptrdiff_t>(begin),
                                               first + static_cast<std::ptrdiff_t>(end));
  return {*low, *high};
}

/// The steps that a column of `columns` stands for; one at least.
std::pair<std::size_t, std::size_t> steps_of(std::size_t column,
                                             std::size_t columns,
                                             std::size_t steps) {
  const auto begin = std::min(column * steps / columns, steps - 1);
  return {begin, std::max(begin + 1, (column + 1) * steps / columns)};
}

double greatest(const RateCurve& curve) {
  return *std::max_element(curve.rates.begin(), curve.rates.end());
}

/// Three digits: 0.188, 1e-05.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double epoch_of(const RateCurve& curve, double step) { return step / curve.steps_per_epoch; }

constexpr std::size_t width = 72, height = 14, margin = 9;

std::string right(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, text.size()), ' ') + text;
}

/// "0      epochs      90" below the columns.
std::string epoch_axis(const RateCurve& curve) {
  const auto last = short_number(epoch_of(curve, static_cast<double>(curve.rates.size())));
  const std::string name = "epochs";
  auto axis = std::string("0") + std::string(width / 2 - name.size() / 2 - 1, ' ') + name;
  axis += right(last, width - axis.size());
  return std::string(margin + 1, ' ') + axis + '\n';
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '&') {
      out += "&amp;";
    } else if (letter == '<') {
      out += "&lt;";
    } else if (letter == '>') {
      out += "&gt;";
    } else {
      out += letter;
    }
  }
  return out;
}

// The picture's plotting area, in its units.
constexpr double left = 64, top = 36, across = 640, down = 220;

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return formatted(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string line_at(double x1, double y1, double x2, double y2) {
  return formatted("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", x1, y1, x2, y2);
}

std::string svg_axes(const RateCurve& curve, double high) {
  std::string lines = "<g stroke=\"#ddd\">\n", texts;
  const double epochs = epoch_of(curve, static_cast<double>(curve.rates.size()));
  for (int i = 0; i <= 4; ++i) {
    const double part = i / 4.0, y = top + down * (1 - part), x = left + across * part;
    lines += line_at(left, y, left + across, y);
    texts += text_at(left - 8, y + 4, "end", short_number(high * part));
    texts += text_at(x, top + down + 20, "middle", short_number(epochs * part));
  }
  return lines + "</g>\n" + texts + text_at(left + across / 2, top + down + 38, "middle", "epochs");
}

std::string svg_corners(const RateCurve& curve, double high) {
  const auto steps = curve.rates.size(), columns = std::min<std::size_t>(steps, 720);
  std::string points;
  const auto add = [&](double step, double rate) {
    points += formatted("{}{},{}",
                        points.empty() ? "" : " ",
                        decimal_text(left + across * step / static_cast<double>(steps), 2),
                        decimal_text(top + down * (1 - rate / high), 2));
  };
  for (std::size_t column = 0; column < columns; ++column) {
    const auto [begin, end] = steps_of(column, columns, steps);
    const auto [low, most] = bounds(curve, begin, end);
    const auto first = curve.rates[begin], last = curve.rates[end - 1];
    const auto at = static_cast<double>(begin);
    add(at, first <= last ? low : most);
    if (low != most) add(at, first <= last ? most : low);
  }
  add(static_cast<double>(steps), curve.rates.back());
  return points;
}

}  // namespace

std::string text_drawing(const RateCurve& curve) {
  const double high = std::max(greatest(curve), 1e-300);
  std::vector<std::string> rows(height, std::string(width, ' '));
  const auto row_of = [high](double rate) {
    const auto row = std::lround(rate / high * (height - 1));
    return height - 1 - static_cast<std::size_t>(std::clamp<long>(row, 0, height - 1));
  };
  for (std::size_t column = 0; column < width; ++column) {
    const auto [begin, end] = steps_of(column, width, curve.rates.size());
    const auto [low, most] = bounds(curve, begin, end);
    for (auto row = row_of(most); row <= row_of(low); ++row) rows[row][column] = '*';
  }
  std::string text;
  for (std::size_t row = 0; row < height; ++row) {
    const double rate = high * static_cast<double>(height - 1 - row) / (height - 1);
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    auto line =
        right(labelled ? short_number(rate) : "", margin) + (labelled ? '+' : '|') + rows[row];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text + epoch_axis(curve);
}

std::string svg_drawing(const RateCurve& curve, const std::string& title) {
  const double high = std::max(greatest(curve), 1e-300);
  return formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"300\" viewBox=\"0 0 720 "
      "300\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"720\" height=\"300\" "
      "fill=\"white\"/>\n{}{}<polyline fill=\"none\" stroke=\"#0b6fa4\" stroke-width=\"2\" "
      "points=\"{}\"/>\n</svg>\n",
      text_at(left, 22, "start", "learning rate: " + title),
      svg_axes(curve, high),
      svg_corners(curve, high));
}

std::string rates_csv(const RateCurve& curve) {
  std::string text = "step,epoch,learning_rate\n";
  for (std::size_t step = 0; step < curve.rates.size(); ++step) {
    text += formatted("{},{},{}\n",
                      step,
                      number_text(epoch_of(curve, static_cast<double>(step))),
                      number_text(curve.rates[step]));
  }
  return text;
}

std::string landmarks(const RateCurve& curve) {
  const auto& rates = curve.rates;
  const auto index = [&](auto found) { return static_cast<std::size_t>(found - rates.begin()); };
  std::set<std::size_t> steps = {0,
                                 index(std::max_element(rates.begin(), rates.end())),
                                 index(std::min_element(rates.begin(), rates.end())),
                                 rates.size() - 1};
  constexpr std::size_t longest = 24;
  for (std::size_t i = 1; i < rates.size() && steps.size() < longest; ++i) {
    if (rates[i] < 0.9 * rates[i - 1] || rates[i] > rates[i - 1] / 0.9) steps.insert(i);
  }
  std::string text;
  for (const auto step : steps) {
    text += formatted("step {}  epoch {}  rate {}\n",
                      right(std::to_string(step), 8),
                      right(decimal_text(epoch_of(curve, static_cast<double>(step)), 2), 8),
                      number_text(rates[step]));
  }
  return text;
}

}  // namespace dimred::commands
