#include "commands/completion.h"

#include <sstream>

#include "commands/run.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

constexpr auto usage =
    "dimred completion: print a script that completes commands, options and values in bash or "
    "zsh\n\n"
    "usage: dimred completion > FILE\n\n"
    "  bash: FILE = ~/.local/share/bash-completion/completions/dimred\n"
    "  zsh:  in ~/.zshrc: autoload -U +X bashcompinit && bashcompinit && source FILE\n";

constexpr auto script_end = R"bash(  esac
  while read -r line && [[ $line != "$before "* ]]; do :; done <<<"$lines"
  if [[ $line == *' PATH' || ( -z $line && $word != -* ) ]]; then
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$word"))
  elif [[ -n $line && $word != -* ]]; then
    COMPREPLY=($(compgen -W "${line#* }" -- "$word"))
  else
    COMPREPLY=($(compgen -W "$(printf '%s\n' "$lines" | cut -d' ' -f1)" -- "$word"))
  fi
}
complete -o filenames -F _dimred dimred
)bash";

/// This program's own output for `words`.
std::string output_of(const std::vector<std::string>& words) {
  std::vector<std::string> command = {"/proc/self/exe"};
  command.insert(command.end(), words.begin(), words.end());
  std::string output;
  const auto result = run_program(command, 0, [&](std::span<const std::byte> bytes) {
    output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  require_environment(result.started && result.code == 0,
                      "[completion] cannot list the options of dimred {}: {}",
                      words.front(),
                      result.errors);
  return output;
}

/// The tools of `dimred data` and `dimred store`: lines of two blanks, a name and a summary.
std::vector<std::string> tools_of(const std::string& help) {
  std::vector<std::string> tools;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ") && line[2] >= 'a' && line[2] <= 'z')
      tools.push_back(line.substr(2, line.find(' ', 2) - 2));
  return tools;
}

/// The options of a command; its help may have other lines, too.
std::string case_of(const std::string& pattern, const std::string& help) {
  std::string options;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("--")) options += line + '\n';
  return formatted("  {}) lines='{}' ;;\n", pattern, options);
}

}  // namespace

int completion_command(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& subcommands) {
  if (asks_for(arguments, "help")) {
    print(usage);
    return exit_success;
  }
  require(arguments.empty(), "[completion] needs no argument, received {}", arguments.front());
  std::string cases, tools;
  for (const auto& command : subcommands) {
    if (command == "completion") continue;
    if (command != "data" && command != "store") {
      cases += case_of(command + "' '*", output_of({command, "--help", "names"}));
      continue;
    }
    const auto names = tools_of(output_of({command, "--help"}));
    tools += formatted("    {}) choices='{}' ;;\n", command, joined(names, " "));
    for (const auto& tool : names)
      cases += case_of(formatted("{}' '{}", command, tool),
                       output_of({command, tool, "--help", "names"}));
  }
  print(
      formatted("# Completion of dimred, written by `dimred completion`.\n"
                "_dimred() {{\n"
                "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
                "  local lines= line choices=\n"
                "  if [ \"$COMP_CWORD\" -eq 1 ]; then choices='{}'; fi\n"
                "  if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
                "    case ${{COMP_WORDS[1]}} in\n{}    esac\n"
                "  fi\n"
                "  if [ -n \"$choices\" ]; then COMPREPLY=($(compgen -W \"$choices\" -- "
                "\"$word\")); return; fi\n"
                "  case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}\" in\n",
                joined(subcommands, " "),
                tools));
  print(cases);
  print(script_end);
  return exit_success;
}

}  // namespace dimred::commands
