/** `org/name` of a hub, neither a URL nor a path. */
export function isRepository(source: string): boolean {
  return /^[^/:]+\/[^/:]+$/.test(source) && !/^[.~]/.test(source);
}

/** A file of the machine that Berth runs on. */
export function isLocalFile(source: string): boolean {
  return !isRepository(source) && !/^https?:\/\//i.test(source);
}
