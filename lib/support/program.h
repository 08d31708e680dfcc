#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "support/bytes.h"

namespace dimred {

struct ProgramResult {
  bool started = true;   // else `errors` says why not
  int code = 0;          // 128 + signal when one ended it
  bool silent = false;   // ended by us: nothing came for too long
  bool stopped = false;  // ended by us: `stop` became true
  std::string errors;    // the end of what it said on standard error
};

/// Runs a program found at this path or on PATH, with empty standard input; what it prints goes to
/// `sink` as it comes. `timeout`: seconds without output after which it is ended; 0: none.
/// Throws what the sink throws, after ending it.
ProgramResult run_program(const std::vector<std::string>& words,
                          double timeout,
                          const ByteSink& sink,
                          const std::atomic<bool>* stop = nullptr);

}  // namespace dimred
