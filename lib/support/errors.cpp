#include "support/errors.h"

#include <stdexcept>

namespace dimred {
namespace {

// The text's first letter is the kind of the error.
constexpr char callers_fault = 'c', our_bug = 'b', environment = 'e';

}  // namespace

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::invalid_argument& error) {
    return callers_fault + std::string(error.what());
  } catch (const std::logic_error& error) {
    return our_bug + std::string(error.what());
  } catch (const std::exception& error) {
    return environment + std::string(error.what());
  } catch (...) {
    return environment + std::string("unknown exception");
  }
}

void throw_failure(const std::string& failure) {
  const auto text = failure.substr(1);
  if (failure.front() == callers_fault) throw std::invalid_argument(text);
  if (failure.front() == our_bug) throw std::logic_error(text);
  throw std::runtime_error(text);
}

}  // namespace dimred
