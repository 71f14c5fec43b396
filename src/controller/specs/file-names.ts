/** Whether a file of this name may hold specs. */
export function isSpecFileName(name: string): boolean {
  return /\.(yaml|yml|json)$/.test(name) && !isHidden(name) && !/^[#~]/.test(name);
}

/**
 * Names that never count: dot files and folders, which editors, version control and config map
 * mounts keep their own things in.
 */
export function isHidden(name: string): boolean {
  return name.startsWith(".");
}

/** What editors put beside a file while they save it: nothing to look at again for. */
export function isEditorNoise(name: string): boolean {
  return /~$|^#.*#$|^4913$|\.sw[a-z]$|^\.#/.test(name);
}

/**
 * The link that a config map mount swaps to bring all its new files in at once. It is never read
 * itself, but its change says that every file may be another one now.
 */
export const CONFIG_MAP_LINK = "..data";
