# Root runs this every day: what holds a certificate that was renewed is restarted.
$environment
runuser -u "$user" -- headgate flower certificates "$certificates"
if find "$certificates/server.pem" -mmin -5 | grep -q .; then systemctl try-restart headgate-superlink headgate-nginx; fi
