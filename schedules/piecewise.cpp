#include "schedules/piecewise.h"

#include <cmath>

#include "options/option_values.h"
#include "schedules/families.h"
#include "support/printable.h"

namespace dimred::schedules {
namespace {

double piece_number(std::string_view text, const Range& range, std::string_view piece) {
  try {
    return parse_number(text, range);
  } catch (const std::invalid_argument& rule) {
    refuse(
        "[schedules] the piece {} {}, received {}", printable(piece), rule.what(), printable(text));
  }
}

RatePiece parse_piece(std::string_view text, double after) {
  const auto colon = text.find(':');
  require(colon != std::string_view::npos,
          "[schedules] needs END_EPOCH:RATE, END_EPOCH:A->B or END_EPOCH:A=>B, received {}",
          printable(text));
  RatePiece piece{.end_epoch = piece_number(text.substr(0, colon), positive(), text)};
  require(
      piece.end_epoch > after,
      "[schedules] the piece {} needs an end epoch > {}, which is the end of the previous piece",
      printable(text),
      after);
  const auto rates = text.substr(colon + 1);
  auto arrow = rates.find("->");
  piece.shape = PieceShape::linear;
  if (arrow == std::string_view::npos) {
    arrow = rates.find("=>");
    piece.shape = arrow == std::string_view::npos ? PieceShape::constant : PieceShape::exponential;
  }
  const auto range = piece.shape == PieceShape::exponential ? positive() : at_least(0);
  piece.from = piece_number(rates.substr(0, arrow), range, text);
  piece.to = piece.shape == PieceShape::constant
                 ? piece.from
                 : piece_number(rates.substr(arrow + 2), range, text);
  return piece;
}

}  // namespace

std::vector<RatePiece> parse_pieces(std::string_view text) {
  std::vector<RatePiece> pieces;
  while (true) {
    const auto comma = text.find(',');
    pieces.push_back(
        parse_piece(text.substr(0, comma), pieces.empty() ? 0 : pieces.back().end_epoch));
    if (comma == std::string_view::npos) return pieces;
    text.remove_prefix(comma + 1);
  }
}

double piecewise_rate(const std::vector<RatePiece>& pieces, double epoch) {
  double begin = 0;
  for (const auto& piece : pieces) {
    if (epoch < piece.end_epoch) {
      const double part = (epoch - begin) / (piece.end_epoch - begin);
      switch (piece.shape) {
        case PieceShape::constant:
          return piece.from;
        case PieceShape::linear:
          return piece.from + (piece.to - piece.from) * part;
        case PieceShape::exponential:
          return piece.from * std::pow(piece.to / piece.from, part);
      }
    }
    begin = piece.end_epoch;
  }
  return pieces.back().to;
}

namespace families {
Family piecewise() {
  return {.rate =
              [](const ScheduleOptions& options, const Times& times) {
                return piecewise_rate(parse_pieces(options.pieces),
                                      times.step / times.steps_per_epoch);
              },
          .depends_on_length = false};
}
}  // namespace families

}  // namespace dimred::schedules
