// Speaks to the relay given as the first argument with nostr-tools: publishes
// a card, finds it, authenticates and finds a gift wrap made by nostr-tools.
// Prints what it found as one line of JSON.
import WebSocket from 'ws'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'
import { wrapEvent } from 'nostr-tools/nip59'

useWebSocketImplementation(WebSocket)
const deadline = setTimeout(() => { console.error('timeout'); process.exit(1) }, 20000)
const now = () => Math.floor(Date.now() / 1000)
const relay = await Relay.connect(process.argv[2])

const stored = (filters) => new Promise((resolve, reject) => {
  const events = []
  const sub = relay.subscribe(filters, {
    onevent: (ev) => events.push(ev),
    oneose: () => { resolve(events); sub.close() },
    onclose: (reason) => reject(new Error(reason)),
  })
})

const author = generateSecretKey()
const card = finalizeEvent({
  kind: 30417,
  created_at: now(),
  tags: [
    ['d', 'default'],
    ['alt', 'Contact card of an interop test'],
    ['expiration', String(now() + 86400)],
    ['t', 'interop-grün'],
  ],
  content: '',
}, author)
await relay.publish(card)
const cards = await stored([{ kinds: [30417], authors: [getPublicKey(author)], '#d': ['default'] }])

const me = generateSecretKey()
const wrap = wrapEvent({ kind: 14, content: 'hello', tags: [] }, author, getPublicKey(me))
await relay.publish(wrap)
const refusal = await stored([{ kinds: [1059] }]).then(() => '', (err) => err.message)
await relay.auth((template) => finalizeEvent(template, me))
const wraps = await stored([{ kinds: [1059] }])

let invalid = ''
await relay.publish({ ...card, content: 'changed', id: card.id }).catch((err) => { invalid = err.message })

const found = JSON.stringify({
  card: cards.length === 1 && cards[0].id === card.id,
  wrap: wraps.length === 1 && wraps[0].id === wrap.id,
  refusal,
  invalid,
})
clearTimeout(deadline)
relay.close()
process.stdout.write(found + '\n', () => process.exit(0)) // timers of the library are left
