#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// A learning rate step by step.
struct RateCurve {
  std::vector<double> rates;  // of steps 0, 1, ...; not empty
  double steps_per_epoch = 1;
};

/// 72 x 14 characters with axes (rate upwards, epochs to the right); a column shows every rate
/// between the least and the greatest of its steps.
std::string text_drawing(const RateCurve& curve);

/// The same as a picture of 720 x 300 with `title`, at most 1440 corners.
std::string svg_drawing(const RateCurve& curve, const std::string& title);

/// step,epoch,learning_rate; a row a step, numbers that read back as the same bits.
std::string rates_csv(const RateCurve& curve);

/// Steps where something begins or ends, a line each: the first, the greatest, the least, the last,
/// and where the rate at once becomes less than 0.9 or more than 1.11 of what it was.
std::string landmarks(const RateCurve& curve);

}  // namespace dimred::commands
