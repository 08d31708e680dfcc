#pragma once

#include <string_view>
#include <vector>

namespace dimred::schedules {

enum class PieceShape { constant, linear, exponential };

/// The learning rate from the end of the piece before (epoch 0 for the first) to `end_epoch`.
struct RatePiece {
  double end_epoch = 0;
  PieceShape shape = PieceShape::constant;
  double from = 0;  // rate where the piece begins
  double to = 0;    // rate where it ends; = from when constant
};

/// The pieces of a MoXing strategy: "5:0.1->0.4,10:0.4=>0.8,20:0.08", that is end epoch, colon, and
/// a rate, A->B (a straight line) or A=>B (a constant ratio from step to step). Epochs ascend,
/// rates are >= 0, of => both > 0. Throws std::invalid_argument("[schedules] ...") naming the
/// piece. Source: moxing.tensorflow.optimizer.learning_rate_scheduler.piecewise_lr (ModelArts-Lab's
/// documents).
std::vector<RatePiece> parse_pieces(std::string_view text);

/// The rate at `epoch` >= 0; a piece's end epoch belongs to the next one, and after the last its
/// end rate holds.
double piecewise_rate(const std::vector<RatePiece>& pieces, double epoch);

}  // namespace dimred::schedules
