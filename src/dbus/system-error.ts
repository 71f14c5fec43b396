import { getSystemErrorName } from "node:util";

/** A failed system call as Node's own modules report it. `errno` is negative. */
export function systemError(syscall: string, errno: number, path?: string): Error {
  const code = getSystemErrorName(errno);
  const message = path === undefined ? `${syscall} ${code}` : `${syscall} ${code} ${path}`;
  return Object.assign(new Error(message), { code, errno, syscall, path });
}
