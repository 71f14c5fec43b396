/*
 * The structures of sendmsg(2) and recvmsg(2), as 64-bit little-endian Linux has them. glibc declares `msg_iovlen`,
 * `msg_controllen` and `cmsg_len` with 64 bits, musl with 32 and padding that has to be zero: written as 64 bits,
 * the bytes are the same.
 *
 *   struct msghdr                      struct iovec             struct cmsghdr
 *    0 msg_name        (pointer)        0 iov_base (pointer)     0 cmsg_len, with these 16 bytes
 *    8 msg_namelen                      8 iov_len                8 cmsg_level
 *   16 msg_iov         (pointer)                                12 cmsg_type
 *   24 msg_iovlen                                               16 data, padded to a multiple of 8
 *   32 msg_control     (pointer)
 *   40 msg_controllen
 *   48 msg_flags
 */
const IOVEC_AT = 56;
const HEADER_BYTES = IOVEC_AT + 16;
const CONTROL_HEADER_BYTES = 16;
const DESCRIPTOR_BYTES = 4;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_CTRUNC = 0x8;

/** A message header for one data buffer and one control buffer at fixed addresses. */
export class SocketMessage {
  /** A buffer that begins with the `struct msghdr`. */
  readonly header = Buffer.alloc(HEADER_BYTES);
  readonly data: Buffer;
  readonly control: Buffer;

  /** `addressOf` returns the memory address of a Buffer. */
  constructor(dataBytes: number, controlBytes: number, addressOf: (memory: Buffer) => bigint) {
    this.data = Buffer.alloc(dataBytes);
    this.control = Buffer.alloc(controlBytes);
    this.header.writeBigUInt64LE(addressOf(this.header) + BigInt(IOVEC_AT), 16);
    this.header.writeUInt32LE(1, 24);
    this.header.writeBigUInt64LE(addressOf(this.control), 32);
    this.header.writeBigUInt64LE(addressOf(this.data), IOVEC_AT);
  }

  /**
   * Sets the lengths before each call of sendmsg or recvmsg, because recvmsg overwrites the length of the control data.
   */
  setLengths(dataBytes: number, controlBytes: number): void {
    this.header.writeUInt32LE(dataBytes, IOVEC_AT + 8);
    this.header.writeUInt32LE(controlBytes, 40);
    this.header.writeUInt32LE(0, 44);
    this.header.writeUInt32LE(0, 48);
  }

  /** The control data that the last call received. */
  get receivedControl(): Buffer {
    return this.control.subarray(0, this.header.readUInt32LE(40));
  }

  /** True if the system truncated the control data of the last call. */
  get isControlTruncated(): boolean {
    return (this.header.readUInt32LE(48) & MSG_CTRUNC) !== 0;
  }
}

/** Returns the size of a control message with `count` descriptors. */
export function getControlBytes(count: number): number {
  return CONTROL_HEADER_BYTES + aligned(count * DESCRIPTOR_BYTES);
}

/**
 * Writes one control message, which passes the descriptors to the peer, to the buffer `control`. The buffer must be
 * large enough. Returns the length of the control message.
 */
export function writeDescriptors(control: Buffer, fds: readonly number[]): number {
  const bytes = getControlBytes(fds.length);
  control.fill(0, 0, bytes);
  control.writeUInt32LE(CONTROL_HEADER_BYTES + fds.length * DESCRIPTOR_BYTES, 0);
  control.writeInt32LE(SOL_SOCKET, 8);
  control.writeInt32LE(SCM_RIGHTS, 12);
  for (const [index, fd] of fds.entries()) {
    control.writeInt32LE(fd, CONTROL_HEADER_BYTES + index * DESCRIPTOR_BYTES);
  }
  return bytes;
}

/** Returns the descriptors in control data. Skips control messages of other types, such as credentials. */
export function readDescriptors(control: Buffer): number[] {
  const fds: number[] = [];
  let at = 0;
  while (at + CONTROL_HEADER_BYTES <= control.length) {
    const bytes = control.readUInt32LE(at);
    if (bytes < CONTROL_HEADER_BYTES) break;
    if (control.readInt32LE(at + 8) === SOL_SOCKET && control.readInt32LE(at + 12) === SCM_RIGHTS) {
      const end = Math.min(at + bytes, control.length);
      let fdAt = at + CONTROL_HEADER_BYTES;
      for (; fdAt + DESCRIPTOR_BYTES <= end; fdAt += DESCRIPTOR_BYTES) {
        fds.push(control.readInt32LE(fdAt));
      }
    }
    at += aligned(bytes);
  }
  return fds;
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}
