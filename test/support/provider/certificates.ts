import { isIP } from "node:net";
import { generate } from "selfsigned";

/** A private key and its certificate, both in PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

export interface CertificateOptions {
  /** The host names and addresses that the certificate contains. */
  readonly names?: readonly string[];
  readonly validFrom?: Date;
  readonly validUntil?: Date;
}

const DAY_MS = 86_400_000;

/** A certificate authority that only its test trusts. */
export class TestAuthority {
  /** The certificate as PEM, for clients that trust this authority. */
  readonly ca: string;
  readonly #pair: KeyPair;

  /** Creates a certificate authority. Two authorities that one program trusts must have different names. */
  static async create(name = "Berth test authority"): Promise<TestAuthority> {
    const made = await generate([{ name: "commonName", value: name }], {
      keyType: "ec",
      algorithm: "sha256",
      extensions: [
        { name: "basicConstraints", cA: true, critical: true },
        { name: "keyUsage", keyCertSign: true, digitalSignature: true, critical: true },
      ],
    });
    return new TestAuthority({ key: made.private, cert: made.cert });
  }

  private constructor(pair: KeyPair) {
    this.#pair = pair;
    this.ca = pair.cert;
  }

  async issue(options: CertificateOptions = {}): Promise<KeyPair> {
    const names = options.names ?? ["localhost", "127.0.0.1", "::1"];
    const made = await generate([{ name: "commonName", value: names[0] ?? "nobody" }], {
      keyType: "ec",
      algorithm: "sha256",
      ca: this.#pair,
      notBeforeDate: options.validFrom ?? new Date(Date.now() - DAY_MS),
      notAfterDate: options.validUntil ?? new Date(Date.now() + 30 * DAY_MS),
      extensions: [
        { name: "basicConstraints", cA: false },
        { name: "extKeyUsage", serverAuth: true },
        {
          name: "subjectAltName",
          altNames: names.map((name) =>
            isIP(name) === 0 ? { type: 2, value: name } : { type: 7, ip: name },
          ),
        },
      ],
    });
    return { key: made.private, cert: made.cert };
  }
}
