#include "support/scope_exit.h"

#include <string_view>

#include "support/console.h"
#include "support/formatted.h"
#include "support/text.h"

namespace dimred {
namespace {

void say(std::string_view text) noexcept {
  try {
    put_text(stderr,
             formatted("[dimred] the clean-up after an error failed: {}\n", head_line(text)));
  } catch (const std::exception&) {  // no memory for a message
  }
}

}  // namespace

void say_second_error() noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("unknown error");
  }
}

}  // namespace dimred
