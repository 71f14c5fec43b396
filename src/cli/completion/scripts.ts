export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/**
 * The completion scripts of the shells. Each calls `berth __complete`, which reads the command tree of the installed
 * berth, so that a script never becomes outdated. That command prints lines of "value<Tab>description", and a last line
 * that tells if the shell should add paths.
 */
export const completionScripts: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for berth
# Load it in this shell:      source <(berth completion bash)
# Load it in every new shell: berth completion bash > ~/.local/share/bash-completion/completions/berth

_berth() {
  local current="\${COMP_WORDS[COMP_CWORD]}" line paths=none
  # Readline splits --flag=value and a:b at = and :, and joins the parts again.
  local -a words=()
  local index
  for ((index = 1; index < COMP_CWORD; index++)); do
    words+=("\${COMP_WORDS[index]}")
  done
  if [[ "$current" == "=" ]]; then current=""; fi
  if ((\${#words[@]} > 0)) && [[ "\${words[-1]}" == "=" ]]; then unset "words[-1]"; fi
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      ":files" | ":folders" | ":none") paths="\${line#:}" ;;
      *) COMPREPLY+=("\${line%%$'\\t'*}") ;;
    esac
  done < <("\${COMP_WORDS[0]}" __complete --current "$current" -- "\${words[@]}" 2>/dev/null)
  case "$paths" in
    files) compopt -o filenames 2>/dev/null; while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current") ;;
    folders) compopt -o filenames 2>/dev/null; while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current") ;;
  esac
}
complete -F _berth berth
`,
  zsh: `#compdef berth
# zsh completion for berth
# Load it in this shell:      source <(berth completion zsh)
# Load it in every new shell: berth completion zsh > "\${fpath[1]}/_berth"

_berth() {
  local line paths=none value description
  local -a found plain
  while IFS= read -r line; do
    case "$line" in
      ":files" | ":folders" | ":none") paths="\${line#:}" ;;
      *)
        value="\${line%%$'\\t'*}"
        description="\${line#*$'\\t'}"
        found+=("\${value//:/\\\\:}:\${description}")
        ;;
    esac
  done < <("\${words[1]}" __complete --current "\${words[CURRENT]}" -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null)
  (( \${#found} )) && _describe 'berth' found
  case "$paths" in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [ "$funcstack[1]" = "_berth" ]; then
  _berth "$@"
else
  compdef _berth berth
fi
`,
  fish: `# fish completion for berth
# Load it in this shell:      berth completion fish | source
# Load it in every new shell: berth completion fish > ~/.config/fish/completions/berth.fish

function __berth_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l berth $words[1]
    set -e words[1]
    for line in ($berth __complete --current "$current" -- $words 2>/dev/null)
        switch $line
            case ':none'
            case ':files'
                __fish_complete_path "$current"
            case ':folders'
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete -c berth -f -a '(__berth_complete)'
`,
};
