#include "support/scope_exit.h"

#include <string_view>

#include "support/console.h"
#include "support/formatted.h"
#include "support/text.h"

namespace dimred {
namespace {

void say(std::string_view text) noexcept {
  try {
    put_text(
        stderr,
        formatted("[dimred] what an error left behind could not be undone: {}\n", head_line(text)));
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
