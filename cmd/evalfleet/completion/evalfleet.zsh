#compdef evalfleet
_evalfleet() {
    local -a candidates
    candidates=("${(@f)$(evalfleet completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then
        _describe evalfleet candidates
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == _evalfleet ]]; then
    _evalfleet "$@"
else
    compdef _evalfleet evalfleet
fi
