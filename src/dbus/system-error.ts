import { getSystemErrorName } from "node:util";

/** Creates the error of a failed system call in the form that Node's own modules use. `errno` is negative. */
export function systemError(syscall: string, errno: number, path?: string): Error {
  const code = getSystemErrorName(errno);
  const message = path === undefined ? `${syscall} ${code}` : `${syscall} ${code} ${path}`;
  return Object.assign(new Error(message), { code, errno, syscall, path });
}
