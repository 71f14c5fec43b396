/** Creates tar archives that no normal program writes. The test sets every field of an entry. */

export interface RawEntry {
  readonly name: string | Uint8Array;
  /**
   * The type of the entry: 0 file, 1 hard link, 2 symlink, 3 and 4 devices, 5 folder, 6 pipe, x pax header, L long
   * name.
   */
  readonly type?: string;
  readonly content?: string | Uint8Array;
  readonly target?: string;
  readonly mode?: number;
  /** The size in the header. By default it is the length of the content. */
  readonly size?: number;
}

export function rawTar(entries: readonly RawEntry[]): Buffer {
  return Buffer.concat([...entries.map(rawEntry), Buffer.alloc(1024)]);
}

export function rawEntry(entry: RawEntry): Buffer {
  const content = Buffer.from(entry.content ?? "");
  const padding = Buffer.alloc((512 - (content.length % 512)) % 512);
  return Buffer.concat([rawHeader(entry, content.length), content, padding]);
}

function rawHeader(entry: RawEntry, length: number): Buffer {
  const { type = "0", target = "", mode = 0o644, size = length } = entry;
  const block = Buffer.alloc(512);
  Buffer.from(entry.name).copy(block, 0, 0, 100);
  block.write(`${mode.toString(8).padStart(7, "0")}\0`, 100);
  block.write("0000000\x000000000\0", 108);
  if (size < 8 ** 11) block.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  else {
    block.writeUInt8(0x80, 124);
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write("00000000000\0", 136);
  block.write("        ", 148);
  block.write(type, 156);
  block.write(target, 157, 100);
  block.write("ustar\x0000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** Returns a pax header with these records for the next entry. */
export function paxHeader(records: Readonly<Record<string, string>>): RawEntry {
  const content = Object.entries(records).map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    let length = rest + 1;
    while (String(length).length + rest !== length) length += 1;
    return `${length} ${key}=${value}\n`;
  });
  return { name: "PaxHeader", type: "x", content: content.join("") };
}
