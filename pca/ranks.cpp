#include "pca/ranks.h"

#include <exception>
#include <stdexcept>

namespace dimred::pca {
namespace {

// What a rank tells the others of its work: one letter for the kind of error, then the text.
constexpr char kCaller = 'c', kBug = 'b', kEnvironment = 'e';

/// Empty when `work` throws nothing.
std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::invalid_argument& error) {
    return kCaller + std::string(error.what());
  } catch (const std::logic_error& error) {
    return kBug + std::string(error.what());
  } catch (const std::exception& error) {
    return kEnvironment + std::string(error.what());
  } catch (...) {
    return kEnvironment + std::string("unknown exception");
  }
}

[[noreturn]] void throw_outcome(const std::string& outcome) {
  const std::string text = outcome.substr(1);
  if (outcome.front() == kCaller) throw std::invalid_argument(text);
  if (outcome.front() == kBug) throw std::logic_error(text);
  throw std::runtime_error(text);
}

}  // namespace

void agree(const Ranks& ranks, const std::function<void()>& work) {
  if (ranks.size == 1) return work();
  for (const std::string& outcome : ranks.gather(outcome_of(work))) {
    if (!outcome.empty()) throw_outcome(outcome);
  }
}

}  // namespace dimred::pca
