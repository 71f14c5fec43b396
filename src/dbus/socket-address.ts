import os from "node:os";
import { systemError } from "./system-error.ts";

const AF_UNIX = 1;
/** Size of the member `sun_path` of `struct sockaddr_un`. */
const PATH_BYTES_MAX = 108;

/**
 * Returns the `struct sockaddr_un` of a path; a path that begins with a NUL is a name in the abstract namespace.
 * Throws the errors of connect(2): `ENAMETOOLONG`, and `EINVAL` for a NUL after the first character.
 */
export function socketAddress(path: string): Buffer {
  const isAbstract = path.startsWith("\0");
  const name = Buffer.from(path, "utf8");
  if (name.includes(0, 1) || name.length === 0) {
    throw systemError("connect", -os.constants.errno.EINVAL, path);
  }
  // An abstract name ends where the structure ends; a path ends with a NUL byte.
  const bytes = Buffer.alloc(2 + name.length + (isAbstract ? 0 : 1));
  if (bytes.length > 2 + PATH_BYTES_MAX) {
    throw systemError("connect", -os.constants.errno.ENAMETOOLONG, path);
  }
  bytes.writeUInt16LE(AF_UNIX, 0);
  name.copy(bytes, 2);
  return bytes;
}
