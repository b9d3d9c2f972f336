// Send a text and read the inbox through a running agent: agent.mjs HOME TO TEXT
import { request } from 'node:http'

const [home, to, text] = process.argv.slice(2)
const call = (operation, body = {}) => new Promise((resolve, reject) => {
  const req = request({ socketPath: `${home}/agent.sock`, host: 'agent', method: 'POST', path: `/v1/${operation}`, headers: { 'Content-Type': 'application/json' } },
    (res) => res.setEncoding('utf8').toArray().then((parts) => {
      const body = JSON.parse(parts.join(''))
      if (res.statusCode === 200) resolve(body)
      else { console.error(body.detail, body.hint ?? ''); process.exit(1) }
    }))
  req.on('error', reject).end(JSON.stringify(body))
})

console.log((await call('message.send', { to, text, wait_seconds: 10 })).state)
for (const message of (await call('message.inbox', { all: true })).texts) console.log(message.from, message.text)
