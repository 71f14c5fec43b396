/** True if a file of this name may contain specs. */
export function isSpecFileName(name: string): boolean {
  return /\.(yaml|yml|json)$/.test(name) && !isHidden(name) && !/^[#~]/.test(name);
}

/**
 * True for the names of files and folders that Berth ignores: those that begin with a dot, which belong to editors,
 * version control and config map mounts.
 */
export function isHidden(name: string): boolean {
  return name.startsWith(".");
}

/** True for temporary files of editors. Changes of such files cause no scan. */
export function isEditorNoise(name: string): boolean {
  return /~$|^#.*#$|^4913$|\.sw[a-z]$|^\.#/.test(name);
}

/**
 * The link that a config map mount replaces to exchange all its files at once. The link is never read, but if it
 * changes, every file may have changed.
 */
export const CONFIG_MAP_LINK = "..data";
