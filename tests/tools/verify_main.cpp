// verify_tool FILE: FILE holds embeddings [[]] of 2 n images, flipped [[]] of the same or [], and
// same [n] as JSON; prints what dimred verify would say of the pairs (2 i, 2 i + 1).
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/read_file.h"
#include "serving/pairs.h"
#include "support/digest.h"

namespace {

using namespace dimred;
using nlohmann::json;

std::vector<double> flat(const json& rows) {
  std::vector<double> numbers;
  for (const auto& row : rows)
    for (const auto& number : row) numbers.push_back(number);
  return numbers;
}

json said(const json& problem) {
  const auto embeddings = flat(problem.at("embeddings"));
  const auto flipped = flat(problem.at("flipped"));
  const auto size = std::ssize(problem.at("embeddings").at(0));
  std::vector<serving::Pair> pairs;
  for (const bool same : problem.at("same")) {
    const auto first = 2 * std::ssize(pairs);
    pairs.push_back({first, first + 1, same});
  }
  const auto distances = serving::pair_distances(embeddings, flipped, size, pairs);
  const auto result = serving::verify(distances, pairs);
  json folds, tpr, fpr;
  for (const auto& fold : result.folds)
    folds.push_back({fold.threshold, fold.accuracy, fold.tar_threshold, fold.tar, fold.far});
  for (const auto& point : result.roc) {
    tpr.push_back(point.true_positive_rate);
    fpr.push_back(point.false_positive_rate);
  }
  return {{"folds", folds},
          {"tpr", tpr},
          {"fpr", fpr},
          {"accuracy", result.accuracy},
          {"accuracy_deviation", result.accuracy_deviation},
          {"tar", result.tar},
          {"tar_deviation", result.tar_deviation},
          {"far", result.far},
          {"xnorm", serving::mean_length(embeddings, flipped, size, pairs)}};
}

json held(const std::string& file) {
  try {
    const auto list = serving::read_pairs(file);
    json result{{"images", json::array()}, {"pairs", json::array()}};
    for (const auto& image : list.images) {
      std::vector<std::uint8_t> bytes(image.bytes.begin(), image.bytes.end());
      if (bytes.empty()) data::read_file(image.file.string(), "image", bytes);
      result["images"].push_back(digest(std::as_bytes(std::span(bytes))));
    }
    for (const auto& pair : list.pairs)
      result["pairs"].push_back({pair.first, pair.second, pair.same});
    return result;
  } catch (const std::runtime_error& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::vector<std::string> arguments(values + 1, values + count);
    if (arguments.at(0) == "--pairs") {
      for (std::size_t i = 1; i < arguments.size(); ++i)
        std::cout << held(arguments[i]).dump() << '\n';
      return 0;
    }
    std::ifstream stream(arguments[0]);
    std::cout << said(json::parse(stream)).dump() << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
