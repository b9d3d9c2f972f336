// Speaks of receipts with the protocol's own packages: reads one JSON document
// {receipts, issue, key, groups, values} from standard input and writes what it
// made of each entry as one JSON document.
import { readFileSync } from 'node:fs'
import { canonicalize, derivePublicKey, jcsHash, signWire02, verify } from '@peac/crypto'
import { computeReceiptRef, parseReceiptClaims, validateKernelConstraints, validateKnownExtensions, verifyReceiptRefConsistency } from '@peac/schema'

const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64url'))
const { receipts, issue, key, groups, values } = JSON.parse(readFileSync(0, 'utf8'))

const verdict = async ({ jws, key }) => {
  try {
    const { valid, header, payload } = await verify(jws, bytes(key))
    const parsed = parseReceiptClaims(payload)
    const ref = await computeReceiptRef(jws)
    const refusal = await verifyReceiptRefConsistency({ receipt_ref: ref, receipt_jws: jws })
    const problem = !valid ? 'signature' : parsed.ok ? refusal : JSON.stringify(parsed.error)
    return { problem: problem ?? '', ref, kid: header.kid, typ: header.typ, payload: canonicalize(payload) }
  } catch (err) {
    return { problem: `${err.code ?? ''} ${err.message}` }
  }
}

const verified = []
for (const receipt of receipts) verified.push(await verdict(receipt))

const issued = []
for (const claims of issue) {
  const problem = parseReceiptClaims(claims).ok && validateKernelConstraints(claims).valid ? '' : JSON.stringify(parseReceiptClaims(claims).error)
  issued.push({ problem, jws: await signWire02(claims, bytes(key), 'npm-1') })
}

const accepted = groups.map(({ name, value }) => {
  let good = true
  validateKnownExtensions({ [name]: value }, { addIssue: () => { good = false } })
  return good
})

const forms = []
for (const value of values) forms.push({ form: canonicalize(value), hash: await jcsHash(value) })

process.stdout.write(JSON.stringify({ verified, issued, publicKey: Buffer.from(await derivePublicKey(bytes(key))).toString('base64url'), accepted, forms }))
