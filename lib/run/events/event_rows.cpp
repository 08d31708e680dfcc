#include "run/events/event_rows.h"

#include <cmath>
#include <map>

#include "support/errors.h"
#include "support/text.h"

namespace dimred::run {

EventRows::EventRows(std::string_view header, std::int64_t every)
    : columns_(split_list(header.substr(0, header.find('\n')))), every_(every) {
  check(every >= 1, "events of every 0th row");
}

std::optional<EventRow> EventRows::next(std::string_view row) {
  const auto fields = split_list(row.substr(0, row.find('\n')));
  require_environment(fields.size() == columns_.size(),
                      "[tensorboard] needs rows of {} fields, received {}",
                      columns_.size(),
                      fields.size());
  std::map<std::string, double> numbers;
  std::string prefix = "step/";
  EventRow result;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (columns_[i] == "weights") prefix = fields[i] + '/';
    if (const auto number = number_in<double>(fields[i])) numbers[columns_[i]] = *number;
  }
  require_environment(
      numbers.contains("step"), "[tensorboard] needs rows with a step, received {}", row);
  result.step = std::llround(numbers["step"]);
  if (result.step % every_ != 0) return std::nullopt;
  for (const auto& column : columns_) {
    const auto found = numbers.find(column);
    if (column != "step" && found != numbers.end())
      result.scalars.push_back({prefix + column, found->second});
  }
  if (numbers.contains("images") && numbers.contains("seconds")) {
    const double images = numbers["images"] - images_, seconds = numbers["seconds"] - seconds_;
    if (images > 0 && seconds > 0)
      result.scalars.push_back({prefix + "images_per_second", images / seconds});
    images_ = numbers["images"];
    seconds_ = numbers["seconds"];
  }
  return result;
}

}  // namespace dimred::run
