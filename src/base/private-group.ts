import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

/**
 * Returns the id of this user's private group: the primary group that has the user's own name and no other member.
 * Systems with such groups create files that the group may write to. Returns undefined if there is no such group, or if
 * its members cannot be read.
 */
export function findPrivateGroup(): number | undefined {
  try {
    const { username, gid } = userInfo();
    const groups = readFileSync("/etc/group", "utf8");
    const users = readFileSync("/etc/passwd", "utf8");
    return isPrivateGroup(username, gid, groups, users) ? gid : undefined;
  } catch {
    return undefined;
  }
}

/** `groups` and `users` are the texts of /etc/group (NAME:x:GID:MEMBERS) and /etc/passwd (NAME:x:UID:GID:...). */
export function isPrivateGroup(
  username: string,
  gid: number,
  groups: string,
  users: string,
): boolean {
  const own = splitRows(groups).filter(([, , id]) => id === String(gid));
  return (
    own.length === 1 &&
    own.every(
      ([name, , , members = ""]) => name === username && (members === "" || members === username),
    ) &&
    splitRows(users).every(([name, , , group]) => group !== String(gid) || name === username)
  );
}

const splitRows = (table: string) => table.split("\n").map((line) => line.split(":"));
